"""What a reward function is asked, and what came of it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

STATUSES = ("ok", "error", "invalid", "timeout", "died")


@dataclass(frozen=True)
class RewardSample:
    """A response to score; the last four fields are verl's arguments of compute_score."""

    sample_id: str
    data_source: str
    solution_str: str
    ground_truth: Any = None
    extra_info: dict[str, Any] | None = None


@dataclass(frozen=True)
class RewardResult:
    """`score` is the function's where status is "ok", else the configured default.

    error: the function raised; invalid: it returned no finite number; timeout: it was killed at its limit;
    died: its process ended (crash, out of memory, os._exit).
    """

    sample_id: str
    score: float
    status: str = "ok"
    detail: str = ""  # why there is no score
    extra: dict[str, Any] = field(default_factory=dict)  # the other entries of a returned dict

    @property
    def ok(self) -> bool:
        return self.status == "ok"


def count(results: Iterable[RewardResult]) -> dict[str, int]:
    """How many results have each status, all statuses named."""
    found = Counter(result.status for result in results)
    return {status: found[status] for status in STATUSES}

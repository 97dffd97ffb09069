"""Models on some of the ranks, in layouts of their own for each call."""

from collections.abc import Sequence
from typing import Any

from tests.distributed import trainer_jobs

Ranks = tuple[str | None, str | None]


def trained(folder: str, *, runs: Sequence[tuple[int, Ranks, str]]) -> list[dict[str, Any]]:
    """Training of actor and critic for each (pp, their ranks, schedule.method)."""
    options: dict[str, Any] = {"tp": 1, "actor_micro": 1, "critic_micro": 2}
    return [trainer_jobs.train(folder, pp=pp, ranks=ranks, method=method, **options) for pp, ranks, method in runs]


def generated(folder: str, *, runs: Sequence[dict[str, Any]]) -> list[list[list[int]]]:
    return [trainer_jobs.generate(folder, **run) for run in runs]

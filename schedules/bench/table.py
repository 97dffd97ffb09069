"""What a table is: rows by key, how one row is run, and how rows become Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedules.search.limits import Limits
from schedules.solve import Solution

Facts = dict[str, Any]  # what a row's run found; JSON
Rows = Mapping[str, Mapping[str, Any]]  # key -> facts


class RowError(ValueError):
    """A row that there is not, or a line that holds none; the message is one line and names it."""


@dataclass(frozen=True)
class Settings:
    """What the rows of a run have in common; each row carries it."""

    method: str
    time_limit: float
    steps: int | None
    workers: int
    seed: int

    @property
    def limits(self) -> Limits:
        return Limits(self.time_limit, self.steps, self.workers, self.seed)


@dataclass(frozen=True)
class Outcome:
    """A row's facts and, where its order is worth keeping, the solution and the name to keep its problem by."""

    facts: Facts
    solution: Solution | None = None
    name: str = ""


@dataclass(frozen=True)
class Table:
    """A table. Keys are words parted by blanks, the problem first; `time_limit` is the default, in seconds a row."""

    keys: Sequence[str]
    run: Callable[[str, Settings], Outcome]
    report: Callable[[Rows], str]
    time_limit: float


def facts_of(solution: Solution) -> Facts:
    """What most tables tell of a solution."""
    return {
        "makespan": solution.replay.makespan,
        "lower_bound": solution.lower_bound,
        "proved_optimal": solution.proved_optimal,
        "bubble_ratio": round(solution.replay.bubble_ratio, 6),
        "peak": solution.replay.max_peak_memory,
        "seconds": round(solution.seconds, 3),
    }

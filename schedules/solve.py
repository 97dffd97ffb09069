"""Solve a problem by a named method, and say what the result amounts to."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from schedules.bounds import lower_bound
from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.check import check
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import Replay

BUILDERS: dict[str, Callable[[Problem], Order]] = {"serial": serial_1f1b, "gpipe": gpipe, "greedy": greedy}
METHODS = tuple(BUILDERS)


@dataclass(frozen=True)
class Solution:
    """A checked order, its replay, and the bound it is measured against."""

    order: Order
    replay: Replay
    lower_bound: float
    method: str
    seconds: float

    @property
    def proved_optimal(self) -> bool:
        return meets(self.replay.makespan, self.lower_bound)


def solve(problem: Problem, *, method: str = "greedy") -> Solution:
    """Raises OrderError where the method's order breaks the memory cap (serial and gpipe do not look at it)."""
    began = time.perf_counter()
    order = BUILDERS[method](problem)
    seconds = time.perf_counter() - began
    return Solution(order, check(problem, order), lower_bound(problem), method, seconds)


def meets(makespan: float, bound: float) -> bool:
    """Whether a makespan equals a lower bound, up to sums in floating point."""
    return makespan <= bound * (1 + 1e-9)

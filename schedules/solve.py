"""Solve a problem by a named method, and say what the result amounts to."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from schedules.bounds import lower_bound
from schedules.builders import gpipe, greedy, interleaved_1f1b, overlay, serial_1f1b, zero_bubble
from schedules.check import check
from schedules.order import Order
from schedules.placement import SHAPES, place
from schedules.problem import Problem, ProblemError
from schedules.replay import Replay
from schedules.search.limits import Limits

BUILDERS: dict[str, Callable[[Problem], Order]] = {
    "serial": serial_1f1b,
    "gpipe": gpipe,
    "interleaved": interleaved_1f1b,
    "zero-bubble": zero_bubble,
    "overlay": overlay,
    "greedy": greedy,
}
SEARCHES = ("anneal", "tabu", "exact", "auto")
STARTING = SEARCHES  # those that may start from an order
METHODS = (*BUILDERS, *SEARCHES)
GENERAL = tuple(m for m in METHODS if m not in ("interleaved", "zero-bubble"))  # those that suit every problem


@dataclass(frozen=True)
class Solution:
    """A checked order, its replay, and the best bound known on the makespan of the problem that it solves."""

    problem: Problem
    order: Order
    replay: Replay
    lower_bound: float
    method: str
    seconds: float

    @property
    def proved_optimal(self) -> bool:
        return meets(self.replay.makespan, self.lower_bound)


def solve(
    problem: Problem,
    *,
    method: str = "auto",
    limits: Limits | None = None,
    start: Order | None = None,
    apart: bool = False,
) -> Solution:
    """Raises ProblemError where the method does not suit the problem, OrderError where its order breaks the cap.

    Of the builders only greedy looks at the memory cap. start: an order that the search begins with, in greedy's place.
    apart: one model after the other on every rank, without a barrier between (search/apart.py).
    """
    if apart:
        from schedules.search.apart import solve_apart

        return solve_apart(problem, method=method, limits=limits or Limits())
    began = time.perf_counter()
    if start is not None:
        _check_start(problem, start, method=method)
    order, bound = _run(problem, method, limits or Limits(), start)
    seconds = time.perf_counter() - began
    return Solution(problem, order, check(problem, order), max(bound, lower_bound(problem)), method, seconds)


def solve_placements(problem: Problem, *, method: str = "auto", limits: Limits | None = None) -> Solution:
    """The best over all placements (placement.py), each given an equal part of the limits.

    Placements that come to the same problem are solved once. The bound of the result is that of its own placement.
    """
    placed = {p.digest: p for p in (place(problem, shape=shape) for shape in SHAPES)}
    part = (limits or Limits()).part(1 / len(placed))
    solutions = [solve(p, method=method, limits=part) for p in placed.values()]
    best = min(solutions, key=lambda s: (s.replay.makespan, s.replay.max_peak_memory))
    return replace(best, seconds=sum(s.seconds for s in solutions))


def solve_robust(
    problem: Problem, *, method: str = "auto", limits: Limits | None = None, jitter: float, tries: int = 4
) -> Solution:
    """Of several near-optimal orders, by seeds and greedy, the one that stands jittered durations best (robust.py)."""
    from schedules.search.robust import most_robust

    limits = limits or Limits()
    part = limits.part(1 / tries)
    found = [solve(problem, method=method, limits=replace(part, seed=limits.seed + k)) for k in range(tries)]
    chosen = most_robust(problem, [s.order for s in found] + [greedy(problem)], jitter=jitter, seed=limits.seed)
    bound, seconds = max(s.lower_bound for s in found), sum(s.seconds for s in found)
    return Solution(problem, chosen, check(problem, chosen), bound, method, seconds)


def meets(makespan: float, bound: float) -> bool:
    """Whether a makespan equals a lower bound, up to sums in floating point."""
    return makespan <= bound * (1 + 1e-9)


def _check_start(problem: Problem, start: Order, *, method: str) -> None:
    if method not in STARTING:
        raise ProblemError(f"start: method {method} starts from no order; those that do are {', '.join(STARTING)}")
    check(problem, start)


def _run(problem: Problem, method: str, limits: Limits, start: Order | None) -> tuple[Order, float]:
    """The method's order, and the bound it proved (0 where it proves none). Solvers are loaded only where used."""
    if method in BUILDERS:
        return BUILDERS[method](problem), 0.0
    if method == "anneal":
        from schedules.search.anneal import anneal

        return anneal(problem, limits=limits, start=start), 0.0
    if method == "exact":
        from schedules.search.exact import least_makespan

        found = least_makespan(problem, limits=limits, start=start)
        return found.order, found.bound
    from schedules.search.auto import auto, descend

    if method == "tabu":
        began, goal, start = time.perf_counter(), lower_bound(problem), start or greedy(problem)
        return descend(problem, start, limits=limits.later(time.perf_counter() - began), goal=goal), 0.0
    found = auto(problem, limits=limits, start=start)
    return found.order, found.bound

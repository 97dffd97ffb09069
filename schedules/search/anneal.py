"""The paper's two-phase annealing (RLHFuse, arXiv 2409.13221, section 5), memory under a hard cap throughout.

    phase 1: shorten the makespan by swaps of neighbours in a row, until it meets the lower bound
    phase 2: at that makespan, lower the memory above a target, summed over all forwards, until the peak is below it

Steps are counted, so the result is the same for the same seed where the limit is in steps.
"""

import numpy as np

from schedules.bounds import lower_bound
from schedules.builders import greedy
from schedules.graph import build_graph, every_split
from schedules.order import Order
from schedules.passes import split_backward
from schedules.problem import Problem
from schedules.replay import measure, numbered
from schedules.search.kernel import anneal_steps
from schedules.search.limits import Clock, Limits
from schedules.search.random_numbers import seeded
from schedules.search.scale import scaled, unit_near_mean
from schedules.search.state import order_of_rows, rows_of, settle, tables_of

_ROUND = 50_000  # steps of one fall of the temperature; the clock is looked at between rounds,
_VISITS = 100_000_000  # which visit no more ops than this, a few seconds' worth


def anneal(problem: Problem, *, limits: Limits, start: Order | None = None) -> Order:
    """Both phases, half of the limits each; never worse than `start` (greedy)."""
    shorter = anneal_makespan(problem, limits=limits.part(0.5), start=start or greedy(problem))
    return anneal_memory(problem, limits=limits.part(0.5), start=shorter)


def anneal_makespan(problem: Problem, *, limits: Limits, start: Order) -> Order:
    """Phase 1: rounds of falling temperature, each from the best order so far, until the lower bound is met."""
    search, clock = _Search(problem, start, limits.seed), Clock(limits)
    bound = lower_bound(problem) * (1 + 1e-9)
    while search.makespan > bound and (steps := clock.take(search.steps)):
        search.run(steps, target=np.inf, limit=np.inf, weight_time=1.0, heat=search.unit)
    return search.order()


def anneal_memory(problem: Problem, *, limits: Limits, start: Order, enough: float = 0.0) -> Order:
    """Phase 2: the least peak memory at the makespan of `start`; done where the peak is `enough`."""
    search, clock = _Search(problem, start, limits.seed), Clock(limits)
    enough = max(enough, *(problem.least_memory(rank) for rank in range(problem.ranks)))
    peak, rows = search.peak, search.best
    while peak > enough * (1 + 1e-9) and (steps := clock.take(search.steps)):
        search.run(steps, target=enough, limit=search.makespan, weight_time=0.0, heat=search.weight)
        if search.peak < peak:  # less memory over all may still come with a higher peak
            peak, rows = search.peak, search.best
    return search.order(rows)


class _Search:
    """One search from a start: the best rows so far and the arrays they live in."""

    def __init__(self, problem: Problem, start: Order, seed: int) -> None:
        self.graph = build_graph(problem, split=every_split(problem))
        self.time_unit, self.memory_unit = (unit_near_mean(v) for v in (self.graph.duration, self.graph.acquire))
        self.own = scaled(self.graph, time=self.time_unit, memory=self.memory_unit)
        self.room = problem.room / self.memory_unit
        self.steps = max(1, min(_ROUND, _VISITS // len(self.graph.ops)))
        self.tables = tables_of(self.own)
        self.rows = rows_of(self.own, split_backward(problem, start))
        self.random = seeded(seed)
        self.unit = min((d for d in self.own.duration if d > 0), default=1.0)
        self.weight = 2 * max(self.own.acquire) or 1.0
        self._keep(self.rows.ops.copy())

    def order(self, rows: np.ndarray | None = None) -> Order:
        return order_of_rows(self.graph, self.rows._replace(ops=self.best if rows is None else rows))

    def run(self, steps: int, *, target: float, limit: float, weight_time: float, heat: float) -> None:
        """One round from the best rows; temperature falls from `heat` to a twentieth of it, both in own units."""
        self.rows.ops[:] = self.best
        settle(self.own, self.rows)
        found = self.best.copy()
        bounds = (self.room, target / self.memory_unit, limit / self.time_unit)
        anneal_steps(self.tables, self.rows, found, self.random, *bounds, weight_time, heat, heat / 20, steps)
        self._keep(found)

    def _keep(self, rows: np.ndarray) -> None:
        self.best = rows
        self.makespan, self.peak = measure(self.graph, numbered(self.graph, self.order()))

"""Orders that are short and take little memory: a tabu search that lowers one, then the other.

    free      no cap: until the makespan meets the lower bound, or no longer falls
    descend   the cap falls from the peak that was reached, a step at a time, the makespan held; each search starts from
              the order before, which breaks the new cap in a few places only. A step that fails is halved.
    relax     where the memory cap is hard and not reached: the same, the makespan allowed to grow, more each time
    hold      at the cap: the makespan down again

Good orders of little memory are rare, and near other good orders: this way finds those that a search under the cap from
the start does not (exp4 at serial 1F1B's peak: 366, the bound, where that search ends near 390).
"""

from dataclasses import dataclass

import numpy as np

from schedules.order import Order
from schedules.problem import Problem
from schedules.search.layout import EPS
from schedules.search.limits import Clock
from schedules.search.tabu import Tabu

_ROUND = 5  # moves an op between two looks at the clock,
_LEAST_ROUND, _MOST_ROUND = 200, 4000  # within these
_STALE = 20  # rounds without a shorter order, after which `free` and `hold` give up
_FREE = 0.2  # of the clock, after which `free` gives way, where the cap is hard
_PATIENCE = 4  # rounds that one lowering of the cap may take at first
_DESCEND = 0.35  # of the clock, after which `descend` gives way to `relax`
_RELAX = 0.75  # of the clock, after which `relax` gives up
_SLACK = 0.015  # of the makespan, by which it may grow at the first `relax`; twice that at each further one
_FINE = 8  # parts of the least activation: the smallest step down
_COARSE = 8  # times that: the smallest step of `relax`, which goes on with more slack instead


@dataclass
class _Best:
    """Rows and what they amount to."""

    rows: np.ndarray
    makespan: float
    peak: float


class Descent:
    """One such search from a start. Deterministic for a seed where the clock counts steps."""

    def __init__(self, problem: Problem, start: Order, *, seed: int, clock: Clock, apart: bool = False) -> None:
        self._tabu = Tabu(problem, start, seed=seed, apart=apart)
        self._clock = clock
        self._least = min((a for a in self._tabu.graph.acquire if a > 0), default=1.0) / _FINE
        self._round = min(_MOST_ROUND, max(_LEAST_ROUND, _ROUND * len(self._tabu.graph.ops)))
        self._eps = EPS * self._tabu.time_unit
        rows = self._tabu.best.copy()
        self._best = _Best(rows, *self._tabu.measure(rows))

    @property
    def order(self) -> Order:
        return self._tabu.layout.order(self._best.rows)

    def within(self, *, goal: float, cap: float, hard: bool) -> bool:
        """Search for an order that meets `goal` within `cap`; true where it was found.

        Else `order` is the best one met: where the cap is `hard`, the shortest within it, or, where the descent came to
        none, one above it; where it is not, the one of least peak among the shortest.
        """
        self._shorten(goal=goal, cap=np.inf, until=_FREE if hard else 0.5)
        reached = self._insist(cap=cap, until=_DESCEND if hard else 1.0)
        slack = _SLACK
        while hard and not reached and self._clock.used < _RELAX and not self._clock.over:
            reached = self._descend(cap=cap, patience=_PATIENCE, slack=slack, until=_RELAX)
            slack *= 2
        if hard and reached:
            self.hold(goal=goal, cap=cap)
        return reached and self._best.makespan <= goal + self._eps

    def hold(self, *, goal: float, cap: float) -> None:
        """From an order within the cap: the makespan down, until it meets the goal or the clock ends it."""
        while self._best.makespan > goal + self._eps and not self._clock.over:
            self._shorten(goal=goal, cap=cap, until=1.0)
            self._tabu.restart(self._best.rows)

    def _insist(self, *, cap: float, until: float) -> bool:
        """Lower the peak to `cap` at the present makespan, with more and more patience."""
        patience = _PATIENCE
        while not self._descend(cap=cap, patience=patience, slack=0.0, until=until):
            if self._clock.over or self._clock.used >= until:
                return False
            patience *= 2
        return True

    def _shorten(self, *, goal: float, cap: float, until: float) -> None:
        """Lower the makespan within the cap until it meets the goal or some rounds brought nothing."""
        since = 0
        while self._best.makespan > goal + self._eps and since < _STALE and self._clock.used < until:
            found = self._search(cap=cap, goal=goal)
            since += 1
            if found < self._best.makespan - self._eps:
                self._keep()
                since = 0

    def _descend(self, *, cap: float, patience: int, slack: float, until: float) -> bool:
        """Lower the peak to `cap`, the makespan growing by at most `slack` of it; gives up at `until` of the clock."""
        goal = self._best.makespan * (1 + slack)
        step = max(4 * self._least, (self._best.peak - cap) / (2 if slack else 8))
        while self._best.peak > cap * (1 + 1e-9):
            below = max(cap, self._best.peak - step)
            if self._lower(cap=below, goal=goal, patience=patience):
                self._keep()
                step *= 1.25
            else:
                self._tabu.restart(self._best.rows)
                step /= 2
            if step < (_COARSE if slack else 1) * self._least or self._clock.over or self._clock.used > until:
                break
        return self._best.peak <= cap * (1 + 1e-9)

    def _lower(self, *, cap: float, goal: float, patience: int) -> bool:
        return any(self._search(cap=cap, goal=goal) <= goal + self._eps for _ in range(patience))

    def _search(self, *, cap: float, goal: float) -> float:
        """A round of the tabu search; infinite where it met no order within the cap, or the clock is over."""
        steps, before = self._clock.take(self._round), int(self._tabu.steps[0])
        if not steps:
            return np.inf
        found = self._tabu.run(steps, cap=cap, goal=goal)
        self._clock.give_back(steps - max(1, int(self._tabu.steps[0]) - before))
        return found

    def _keep(self) -> None:
        rows = self._tabu.best.copy()
        self._best = _Best(rows, *self._tabu.measure(rows))

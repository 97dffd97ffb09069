"""Tabu search: rows of ops, changed move by move by the compiled loop (tabu_kernel.py)."""

import numpy as np

from schedules.graph import build_graph, every_split
from schedules.order import Order
from schedules.passes import split_backward
from schedules.problem import Problem
from schedules.replay import measure
from schedules.search.layout import lay_out
from schedules.search.random_numbers import seeded
from schedules.search.scale import mean_of_positive, scaled, unit_near_mean
from schedules.search.tabu_kernel import FORBIDDEN, tabu_steps

_TENURE, _REACH = 10, 8  # a pair is forbidden for 10 to 20 steps; moves for time go over at most 8 places
_LEAST, _MOST = 0.02, 100.0  # bounds of the weight of memory, in mean durations per mean activation


class Tabu:
    """One search: the present rows, the best rows of the last run, and what a run leaves to the next.

    apart: models keep their sequence on every rank, as those that run one after the other do.
    """

    def __init__(self, problem: Problem, start: Order, *, seed: int, apart: bool = False) -> None:
        self.graph = build_graph(problem, split=every_split(problem))
        self.time_unit, self._memory_unit = (unit_near_mean(v) for v in (self.graph.duration, self.graph.acquire))
        graph = scaled(self.graph, time=self.time_unit, memory=self._memory_unit)
        self.layout = lay_out(graph, split_backward(problem, start))
        self.best = self.layout.rows.copy()
        self.steps = np.zeros(2, np.int64)  # moves made, moves looked at
        self._apart = apart
        self._random = seeded(seed)
        self._until = np.zeros(FORBIDDEN, np.int64)
        weight = mean_of_positive(graph.duration) / mean_of_positive(graph.acquire)
        self._weight = np.array([weight, weight * _LEAST, weight * _MOST])

    def run(self, steps: int, *, cap: float, goal: float) -> float:
        """Go on from the present rows until an order within `cap` meets `goal`, at most `steps` moves.

        The makespan of `best`, the shortest order within the cap that was met; infinite where none was.
        """
        room, aim = cap * (1 + 1e-9) / self._memory_unit, goal / self.time_unit
        state = (self.layout.sequence, self.layout.over, self.best, self._until)
        learned = (self._random, self._weight, self.steps)
        limits = (float(room), float(aim), steps, _TENURE, _REACH, self._apart)
        return float(tabu_steps(*self.layout.arrays, *state, *learned, *limits)) * self.time_unit

    def restart(self, rows: np.ndarray) -> None:
        """Go on from other rows."""
        self.layout.put(rows)

    def measure(self, rows: np.ndarray) -> tuple[float, float]:
        """Makespan and largest peak memory of rows."""
        return measure(self.graph, [rows[r, :n].tolist() for r, n in enumerate(self.layout.lengths)])

"""The search for better orders, on a thread of rank 0 while the ranks do other work.

    begin(problems)  ->  greedy of each, then a search of each, one after the other      (generation is over: lengths
                                                                                          are known; rewards, inference)
    take(problem)    ->  the order found, or greedy's where waiting costs more than it can save             (update)

The search's loops are compiled and leave the interpreter to the other threads. Orders are kept by the digest of their
problem; the search for one goes on while greedy's is in use, so that equal work finds it done.
"""

import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass

from schedules.bounds import lower_bound
from schedules.builders.greedy import greedy
from schedules.order import Order
from schedules.problem import Model, Problem
from schedules.replay import Replay, replay
from schedules.search.limits import Limits
from schedules.solve import meets, solve

_KEPT = 64  # problems
_LONGEST_WAIT_S = 60.0  # beyond the budget; the first search on a machine compiles
_SMALL = Problem(  # greedy's order is not its best: a search of it loads and compiles all that searches need
    4,
    (
        Model("a", [0, 1, 2, 3], 4, forward=2.0, backward=4.0, activation=1.0),
        Model("b", [3, 2, 1, 0], 4, forward=1.0, backward=2.0, activation=0.5),
    ),
)

Key = tuple[str, float | None]
"""Digest and memory cap of a problem."""


@dataclass(frozen=True)
class Start:
    """Greedy's order, what it amounts to, and what no order can beat."""

    order: Order
    replay: Replay
    bound: float

    @property
    def is_best(self) -> bool:
        return meets(self.replay.makespan, self.bound)


@dataclass(frozen=True)
class Found:
    """A search's order and the seconds that it took."""

    order: Order
    seconds: float


@dataclass(frozen=True)
class Taken:
    """The order to run. final: no better one is being searched for. seconds: of the search; waited: for it, here."""

    order: Order
    start: Start
    final: bool
    seconds: float
    waited: float


@dataclass(frozen=True)
class _Task:
    start: Future[Start]
    found: Future[Found]


class OrderSearch:
    """Searches by a method of schedules.solve. seconds: for all the problems of one `begin` together."""

    def __init__(self, *, method: str, seconds: float) -> None:
        self._method = method
        self._seconds = seconds
        self._tasks: dict[Key, _Task] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="order-search")
        self._pool.submit(solve, _SMALL, method=method, limits=Limits(steps=1, seconds=seconds))

    def begin(self, problems: Sequence[Problem]) -> None:
        """Start on these problems; what is known is kept, what was not begun of earlier ones is given up."""
        self._give_up()
        new = {key_of(problem): problem for problem in problems if key_of(problem) not in self._tasks}
        starts = {key: self._pool.submit(start_of, problem) for key, problem in new.items()}
        for key, problem in new.items():
            self._tasks[key] = _Task(starts[key], self._pool.submit(self._search, problem, starts[key], len(new)))
        while len(self._tasks) > max(_KEPT, len(new)):
            self._tasks.pop(next(iter(self._tasks)))

    def take(self, problem: Problem, *, unit_s: float | None) -> Taken:
        """The order by now.

        unit_s: seconds of the problem's unit of time. The pass waits no longer than a better order can save; where the
        unit is not known (None), until the search is over.
        """
        task = self._tasks.get(key_of(problem))
        start = task.start.result() if task is not None and task.start.done() else start_of(problem)
        if task is None or start.is_best:
            return Taken(start.order, start, final=True, seconds=0.0, waited=0.0)
        began = time.perf_counter()
        saves = start.replay.makespan - start.bound
        patience = self._seconds + _LONGEST_WAIT_S if unit_s is None else saves * unit_s
        try:
            found = task.found.result(timeout=patience)
        except (NotDone, CancelledError):
            return Taken(start.order, start, final=False, seconds=0.0, waited=time.perf_counter() - began)
        return Taken(found.order, start, final=True, seconds=found.seconds, waited=time.perf_counter() - began)

    def close(self) -> None:
        """Give up what is not begun and wait for the rest, at most the budget."""
        self._pool.shutdown(cancel_futures=True)

    def _give_up(self) -> None:
        for key, task in list(self._tasks.items()):
            if task.found.cancel():
                task.start.cancel()
                del self._tasks[key]

    def _search(self, problem: Problem, start: Future[Start], share: int) -> Found:
        began = time.perf_counter()
        first = start.result()
        if first.is_best:
            return Found(first.order, 0.0)
        limits = Limits(seconds=self._seconds / share)
        order = solve(problem, method=self._method, limits=limits, start=first.order).order
        return Found(order, time.perf_counter() - began)


def key_of(problem: Problem) -> Key:
    return problem.digest, problem.memory_cap


def start_of(problem: Problem) -> Start:
    """Greedy's order of a problem. Raises ProblemError where no order keeps the memory cap."""
    order = greedy(problem)
    return Start(order, replay(problem, order), lower_bound(problem))

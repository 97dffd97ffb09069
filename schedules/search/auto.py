"""auto: tabu descents side by side, one a worker, then CP-SAT on what they leave open.

    goal        the lower bound on the makespan
    memory      the cap, which is hard; where there is none, serial 1F1B's peak, which is as low as one can get

The descents differ by their seeds; the first that meets both ends them all. What is left of the time goes to CP-SAT:
to lower the memory where the makespan meets the bound, else to lower the makespan or to prove that it cannot be.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

from schedules.bounds import lower_bound
from schedules.builders import greedy, serial_1f1b
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import replay
from schedules.search.anneal import anneal_makespan
from schedules.search.descent import Descent
from schedules.search.exact import Found, least_makespan, within
from schedules.search.limits import Clock, Limits

_DESCENT = 0.7  # of the limits
_ANNEAL = 0.4  # of them, where stages occupy several ranks: there the moves of tabu search are few, swaps find more
_MOST_OPS = 2500  # beyond, CP-SAT finds nothing in minutes that the descents did not
_CLOSE = 1e-9  # relative: sums in floating point


def auto(problem: Problem, *, limits: Limits, start: Order | None = None) -> Found:
    """The best order found within the limits, and the best bound on the makespan."""
    began = time.perf_counter()
    bound, start = lower_bound(problem), start or greedy(problem)
    wide = any(isinstance(ranks, tuple) for model in problem.models for ranks in model.placement)
    share = _DESCENT - (_ANNEAL if wide else 0.0)
    order = descend(problem, start, limits=limits.part(share).later(time.perf_counter() - began), goal=bound)
    if wide:
        annealed = anneal_makespan(problem, limits=limits.part(_ANNEAL), start=order)
        peak = aim(problem)
        order = min((order, annealed), key=lambda order: merit(problem, order, peak=peak))
    left = replace(limits.part(1 - _DESCENT), seconds=limits.later(time.perf_counter() - began).seconds)
    return _finish(problem, Found(order, bound), limits=left)


def descend(problem: Problem, start: Order, *, limits: Limits, goal: float, apart: bool = False) -> Order:
    """The best order of `limits.workers` descents; never worse than `start`, which must be within the cap.

    apart: models keep their sequence on every rank.
    """
    began, peak, stop = time.perf_counter(), aim(problem), Event()
    free = start if apart or problem.memory_cap is None else _shorter(problem, start, greedy(problem.with_cap(None)))

    def one(worker: int) -> Order:
        left = limits.later(time.perf_counter() - began)
        if not left.seconds:  # a very large problem: no time to lay out what a search needs
            return free
        clock = Clock(left, stop=stop)
        descent = Descent(problem, free, seed=limits.seed + worker, clock=clock, apart=apart)
        if descent.within(goal=goal, cap=peak, hard=problem.memory_cap is not None):
            stop.set()
        if not problem.fits(replay(problem, descent.order).max_peak_memory):
            descent = Descent(problem, start, seed=limits.seed + worker, clock=clock, apart=apart)
            descent.hold(goal=goal, cap=peak)
        return descent.order

    with ThreadPoolExecutor(limits.workers) as pool:
        try:
            found = list(pool.map(one, range(limits.workers)))
        finally:
            stop.set()  # on an interrupt too: the pool waits for its threads
    return min((start, *found), key=lambda order: merit(problem, order, peak=peak))


def _shorter(problem: Problem, *orders: Order) -> Order:
    return min(orders, key=lambda order: replay(problem, order).makespan)


def aim(problem: Problem) -> float:
    """The peak memory to reach: the cap, or without one serial 1F1B's."""
    if problem.memory_cap is not None:
        return problem.memory_cap
    least = max(problem.least_memory(rank) for rank in range(problem.ranks))
    return max(least, replay(problem, serial_1f1b(problem)).max_peak_memory)


def merit(problem: Problem, order: Order, *, peak: float | None = None) -> tuple[bool, float, float]:
    """What makes an order the better one, least first: within the cap, short, of little memory above `peak`, which is
    `aim`'s where not given."""
    result = replay(problem, order)
    memory = result.max_peak_memory
    return not problem.fits(memory), result.makespan, max(memory, aim(problem) if peak is None else peak)


def _finish(problem: Problem, found: Found, *, limits: Limits) -> Found:
    """CP-SAT from the descents' order, where something is open and the problem is small enough for it."""
    if sum(len(row) for row in found.order.rows) > _MOST_OPS or limits.seconds <= 0:
        return found
    result, peak = replay(problem, found.order), aim(problem)
    if result.makespan > found.bound * (1 + _CLOSE):
        exact = least_makespan(problem, limits=limits, start=found.order)
        return Found(min((found.order, exact.order), key=lambda order: merit(problem, order, peak=peak)), exact.bound)
    if result.max_peak_memory <= peak * (1 + _CLOSE):
        return found
    answer = within(problem, makespan=result.makespan, peak=peak, limits=limits)
    return found if answer.order is None else Found(answer.order, found.bound)

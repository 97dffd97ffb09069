"""auto: the methods in turn, each from the best order so far, until the bound is met or the time is over.

    greedy -> annealing (makespan) -> CP-SAT (makespan) -> polish of the memory

Under a memory cap the memory is good enough as it is; without one it is polished down to serial 1F1B's peak.
"""

import time

from schedules.bounds import lower_bound
from schedules.builders import greedy, serial_1f1b
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import replay
from schedules.search.anneal import anneal_makespan, anneal_memory
from schedules.search.exact import Found, least_makespan, least_memory
from schedules.search.limits import Limits

_ANNEAL, _EXACT = 0.3, 0.4  # shares of the limits; the rest, and what they leave, polishes the memory


def auto(problem: Problem, *, limits: Limits) -> Found:
    """The best order found within the limits, and the best bound on the makespan."""
    ends = time.perf_counter() + limits.seconds
    found = Found(greedy(problem), lower_bound(problem))
    if _open(problem, found):
        found = Found(anneal_makespan(problem, limits=limits.part(_ANNEAL), start=found.order), found.bound)
    if _open(problem, found):
        found = least_makespan(problem, limits=limits.part(_EXACT), start=found.order)
    left = Limits(max(0.0, ends - time.perf_counter()), limits.steps, limits.workers, limits.seed)
    return Found(polish(problem, limits=left, start=found.order), found.bound)


def polish(problem: Problem, *, limits: Limits, start: Order) -> Order:
    """Lower the peak memory at the makespan of `start` to serial 1F1B's: annealing, then CP-SAT from its result."""
    enough = replay(problem, serial_1f1b(problem)).max_peak_memory
    if problem.memory_cap is not None:
        return start
    order = anneal_memory(problem, limits=limits.part(0.5), start=start, enough=enough)
    if replay(problem, order).max_peak_memory <= enough * (1 + 1e-9):
        return order
    return least_memory(problem, limits=limits.part(0.5), start=order).order


def _open(problem: Problem, found: Found) -> bool:
    return replay(problem, found.order).makespan > found.bound * (1 + 1e-9)

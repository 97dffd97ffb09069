"""CP-SAT: orders with a proof, under a hard memory cap.

One interval per op; the ops of a rank do not overlap; data and micro-batch order are precedences. Micro-batch order is
also the symmetry cut: equal micro-batches never trade places. Nothing more is cut: copies of a model on other ranks
meet other stages there, so that they may trade places only where the whole problem maps onto itself.

Memory is one of two:

    cumulative  on each rank, over the stays of its micro-batches: exact. As a cut, with room for K activations of a
                stage, F of micro-batch m + K waits for the release of m.
    credits     windows of micro-batches in flight per stage that stay within the cap together (credits.py): no memory
                is counted, fewer orders are allowed. A proof holds only where windows forbid nothing that the cap
                allows, which is so for a single model with one stage a rank.

Numbers are taken in whole units; where no unit makes them whole, no proof is claimed.
"""

from dataclasses import dataclass
from math import isinf
from typing import Literal

from schedules.bounds import lower_bound
from schedules.builders import greedy
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import Replay, replay
from schedules.search.cp_model import CpModel
from schedules.search.credits import Windows, equal_the_cap, splits
from schedules.search.limits import Limits

Memory = Literal["cumulative", "credits"]
_CLOSE = 1e-9  # relative: what a makespan may be above a limit, by sums in floating point


@dataclass(frozen=True)
class Found:
    """An order, and what is proved: no order has less than `bound` (of the makespan, or of the peak memory)."""

    order: Order
    bound: float


@dataclass(frozen=True)
class Answer:
    """Whether there is an order within limits: one that is, or a proof that there is none, or neither (unknown)."""

    order: Order | None = None
    impossible: bool = False


def least_makespan(
    problem: Problem, *, limits: Limits, start: Order | None = None, memory: Memory = "cumulative"
) -> Found:
    """The shortest order within the memory cap that the limits allow to find; never worse than `start` (greedy)."""
    order, bound = start or greedy(problem), lower_bound(problem)
    options = _options(problem, memory)
    for windows in options:
        before = replay(problem, order)
        if before.makespan <= bound * (1 + _CLOSE):
            break
        model = CpModel(problem, horizon=before.makespan, windows=windows)
        model.hint(order)
        objective = model.makespan_above(bound)
        proved = model.minimise(objective, unit=model.time, limits=limits.part(1 / len(options)))
        bound = max(bound, proved if _proves(problem, windows) else 0.0)
        order = min(_candidates(problem, model, order), key=lambda c: (c[1].makespan, c[1].max_peak_memory))[0]
    return Found(order, bound)


def least_memory(problem: Problem, *, start: Order, limits: Limits) -> Found:
    """The order of least peak memory, among those that take no longer than `start`, that the limits allow to find."""
    before = replay(problem, start)
    model = CpModel(problem, horizon=before.makespan)
    model.hint(start)
    bound = model.minimise(model.peak_below(before.max_peak_memory), unit=model.memory, limits=limits)
    order = min(_candidates(problem, model, start), key=lambda c: (c[1].max_peak_memory, c[1].makespan))[0]
    return Found(order, bound)


def within(
    problem: Problem,
    *,
    makespan: float,
    peak: float,
    limits: Limits,
    start: Order | None = None,
    memory: Memory = "cumulative",
) -> Answer:
    """An order that takes at most `makespan` in at most `peak` memory on each rank, in the problem's cap if it has one.

    start: an order to begin with, in greedy's place; it need not be within anything.
    """
    if _below_bounds(problem, makespan=makespan, peak=peak):
        return Answer(impossible=True)
    inner = _capped(problem, peak)
    start = start or greedy(inner)
    if _fits(inner, start, makespan=makespan):
        return Answer(start)
    options = _options(inner, memory)
    for windows in options:
        model = CpModel(inner, horizon=makespan, windows=windows)
        model.hint(start)
        model.satisfy(limits.part(1 / len(options)))
        order = model.order()
        if order is not None and _fits(inner, order, makespan=makespan):
            return Answer(order)
        if model.impossible and _proves(inner, windows):
            return Answer(impossible=True)
    return Answer()


def _options(problem: Problem, memory: Memory) -> list[Windows | None]:
    """The models to try in turn: None counts memory, anything else is a split of the cap into windows."""
    if memory == "cumulative" or problem.memory_cap is None:
        return [None]
    return list(splits(problem))


def _proves(problem: Problem, windows: Windows | None) -> bool:
    return windows is None or equal_the_cap(problem)


def _capped(problem: Problem, peak: float) -> Problem:
    """The problem under the smaller of its cap and `peak`; an infinite one is none."""
    cap = peak if problem.memory_cap is None else min(peak, problem.memory_cap)
    return problem.with_cap(None if isinf(cap) else cap)


def _below_bounds(problem: Problem, *, makespan: float, peak: float) -> bool:
    least = max(problem.least_memory(rank) for rank in range(problem.ranks))
    return makespan * (1 + _CLOSE) < lower_bound(problem) or peak * (1 + _CLOSE) < least


def _fits(problem: Problem, order: Order, *, makespan: float) -> bool:
    result = replay(problem, order)
    return result.makespan <= makespan * (1 + _CLOSE) and problem.fits(result.max_peak_memory)


def _candidates(problem: Problem, model: CpModel, start: Order) -> list[tuple[Order, Replay]]:
    """The start and what the solver found, as replay sees them, where that is within the cap."""
    found = model.order()
    orders = [(order, replay(problem, order)) for order in ([] if found is None else [found])]
    return [(start, replay(problem, start)), *(o for o in orders if problem.fits(o[1].max_peak_memory))]

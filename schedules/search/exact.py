"""CP-SAT: orders with a proof, under a hard memory cap.

One interval per op; the ops of a rank do not overlap; data and micro-batch order are precedences. Micro-batch order is
also the symmetry cut: equal micro-batches never trade places. Memory on a rank is a cumulative over the stays of its
micro-batches and, as a cut, a credit window per stage: with room for K activations, F of micro-batch m + K waits for
the release of m. Numbers are taken in whole units; where no unit makes them whole, no proof is claimed.
"""

from dataclasses import dataclass

from schedules.bounds import lower_bound
from schedules.builders import greedy
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import Replay, replay
from schedules.search.cp_model import CpModel
from schedules.search.limits import Limits


@dataclass(frozen=True)
class Found:
    """An order, and what is proved: no order has less than `bound` (of the makespan, or of the peak memory)."""

    order: Order
    bound: float


def least_makespan(problem: Problem, *, limits: Limits, start: Order | None = None) -> Found:
    """The shortest order within the memory cap that the limits allow to find; never worse than `start` (greedy)."""
    start = start or greedy(problem)
    model = CpModel(problem, horizon=replay(problem, start).makespan)
    model.hint(start)
    bound = model.minimise(model.makespan, unit=model.time, limits=limits)
    order = min(_candidates(problem, model, start), key=lambda c: (c[1].makespan, c[1].max_peak_memory))[0]
    return Found(order, max(bound, lower_bound(problem)))


def least_memory(problem: Problem, *, start: Order, limits: Limits) -> Found:
    """The order of least peak memory, among those that take no longer than `start`, that the limits allow to find."""
    before = replay(problem, start)
    model = CpModel(problem, horizon=before.makespan)
    model.hint(start)
    bound = model.minimise(model.peak_below(before.max_peak_memory), unit=model.memory, limits=limits)
    order = min(_candidates(problem, model, start), key=lambda c: (c[1].max_peak_memory, c[1].makespan))[0]
    return Found(order, bound)


def _candidates(problem: Problem, model: CpModel, start: Order) -> list[tuple[Order, Replay]]:
    """The start and what the solver found, as replay sees them."""
    orders = [start, *([found] if (found := model.order()) is not None else [])]
    return [(order, replay(problem, order)) for order in orders]

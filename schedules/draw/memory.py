"""Memory in flight over time: what each rank holds after every change."""

from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import Replay, replay

Curve = list[tuple[float, float]]  # (time, memory held from then on)


def memory_curves(problem: Problem, order: Order, *, result: Replay | None = None) -> list[Curve]:
    """One curve a rank, from (0, 0). F takes the activation at its start, the releasing op returns it at its end.

    result: the order's replay, where it is at hand.
    """
    result = result or replay(problem, order)
    return [_curve(problem, order, result, rank) for rank in range(problem.ranks)]


def _curve(problem: Problem, order: Order, result: Replay, rank: int) -> Curve:
    split = {(op.model, op.stage, op.microbatch) for op in order.rows[rank] if op.kind == "W"}
    curve: Curve = [(0.0, 0.0)]
    held = 0.0
    for op in order.rows[rank]:
        model = problem.model(op.model)
        amount = model.activation_of(op.stage, op.microbatch)
        last = "F" if not model.trains else "W" if (op.model, op.stage, op.microbatch) in split else "B"
        if op.kind == "F":
            held += amount
            curve.append((result.start[op], round(held, 9)))
        if op.kind == last:
            held -= amount
            curve.append((result.end[op], round(held, 9)))
    return curve

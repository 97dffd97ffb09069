"""Passes over orders: pure functions, order -> order."""

from schedules.order import Op, Order
from schedules.problem import Problem


def split_backward(problem: Problem, order: Order) -> Order:
    """Put W right after each whole backward that may be split: the same times, in the form that searches use."""
    split = {(op.model, op.stage, op.microbatch) for row in order.rows for op in row if op.kind == "W"}
    splittable = {model.name for model in problem.models if model.backward_weight is not None}

    def parts(op: Op) -> list[Op]:
        whole = op.kind == "B" and op.model in splittable and (op.model, op.stage, op.microbatch) not in split
        return [op, Op(op.model, "W", op.microbatch, op.stage)] if whole else [op]

    return Order(tuple(tuple(part for op in row for part in parts(op)) for row in order.rows))

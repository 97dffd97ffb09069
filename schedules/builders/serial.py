"""Serial 1F1B and GPipe: the models one after the other, without a barrier between.

    1F1B, stage s of S, M micro-batches:  min(M, S - s) F, then B F B F ..., then the remaining B
    GPipe:                                all F, then all B

For equal stages and no communication one model takes (M + S - 1) * (F + B) either way; 1F1B holds min(M, S)
activations on its first rank, GPipe M. A rank that finishes its part of a model goes on with the next at once.
"""

from collections.abc import Callable

from schedules.builders.list_schedule import list_schedule
from schedules.graph import build_graph
from schedules.order import Op, Order
from schedules.problem import Model, Problem

Row = list[Op]


def serial_1f1b(problem: Problem) -> Order:
    """The models in the problem's sequence, each in 1F1B order. Backwards are whole; memory_cap is not looked at."""
    return one_after_other(problem, rows_1f1b)


def gpipe(problem: Problem) -> Order:
    """All models in the problem's sequence, each with all forwards before its backwards (Huang et al. 2019)."""
    return one_after_other(problem, rows_gpipe)


def one_after_other(problem: Problem, rows_of: Callable[[Problem, Model], list[Row]]) -> Order:
    """Join the rows of the models. No cycle can arise: a later model never holds up an earlier one."""
    rows: list[Row] = [[] for _ in range(problem.ranks)]
    for model in problem.models:
        for rank, part in enumerate(rows_of(problem, model)):
            rows[rank] += part
    return Order(tuple(tuple(row) for row in rows))


def rows_1f1b(problem: Problem, model: Model) -> list[Row]:
    """One model alone in 1F1B order."""
    if any(len(model.stages_on(rank)) > 1 for rank in range(problem.ranks)):
        return _rows_by_backward_first(problem, model)
    return [
        [op for s in model.stages_on(rank) for op in stage_row(model, s, warmup=model.stages - s)]
        for rank in range(problem.ranks)
    ]


def rows_gpipe(problem: Problem, model: Model) -> list[Row]:
    """One model alone: stage by stage forward, then stage by stage backward."""
    rows: list[Row] = []
    for rank in range(problem.ranks):
        held = model.stages_on(rank)
        forward = [Op(model.name, "F", m, s) for s in held for m in range(model.microbatches)]
        backward = [Op(model.name, "B", m, s) for s in reversed(held) for m in range(model.microbatches)]
        rows.append(forward + (backward if model.trains else []))
    return rows


def stage_row(model: Model, stage: int, *, warmup: int) -> Row:
    """`warmup` forwards, then backward and forward in turn, then the remaining backwards."""
    forward = [Op(model.name, "F", m, stage) for m in range(model.microbatches)]
    if not model.trains:
        return forward
    backward = [Op(model.name, "B", m, stage) for m in range(model.microbatches)]
    row = forward[:warmup]
    for m, op in enumerate(backward):
        row += [op, *forward[warmup + m : warmup + m + 1]]
    return row


def _rows_by_backward_first(problem: Problem, model: Model) -> list[Row]:
    """Several stages on a rank: backward first, and at most as many stages' activations as the model has stages.

    That is the memory of plain 1F1B over the same stages; the sequence follows from list scheduling.
    """
    counted = Model(model.name, model.placement, model.microbatches, model.forward, model.backward, activation=1)
    graph = build_graph(Problem(problem.ranks, (counted,), problem.comm, memory_cap=model.stages))
    rank_of = {"B": 0, "F": 1}
    priority = [rank_of[op.kind] + op.microbatch / (model.microbatches + 1) - op.stage * 1e-6 for op in graph.ops]
    return [[graph.ops[i] for i in row] for row in list_schedule(graph, priority=priority)]

"""Overlay: every model in its own 1F1B order, laid over each other by the times each would have alone.

Of two halves of one model's micro-batches in opposite directions this is Chimera (Li and Hoefler 2021): with p stages,
p/2 micro-batches each way and F = B = 1 it takes 3 p - 2. Of an actor and a reversed critic it is the fused order
that needs no search.
"""

from schedules.builders.serial import serial_1f1b
from schedules.graph import build_graph
from schedules.order import Op, Order
from schedules.problem import Model, Problem
from schedules.replay import numbered, walk

Key = tuple[float, bool, int, int]


def overlay(problem: Problem) -> Order:
    """Rows merged by start times; sorted by one clock, they cannot wait for each other in a circle."""
    rows: list[list[tuple[Key, Op]]] = [[] for _ in range(problem.ranks)]
    for index, model in enumerate(problem.models):
        for key, op in _timed(problem, model, index * 10**9):
            for rank in model.ranks_of(op.stage):
                rows[rank].append((key, op))
    return Order(tuple(tuple(op for _, op in sorted(row)) for row in rows))


def _timed(problem: Problem, model: Model, first: int) -> list[tuple[Key, Op]]:
    """The model's ops with their place on the clock. Of ops that start together the one further on its way is first.

    Ops without duration come before those, in the sequence in which they wait for each other.
    """
    alone = Problem(problem.ranks, (model,), problem.comm)
    graph = build_graph(alone)
    start, walked = walk(graph, numbered(graph, serial_1f1b(alone)))

    def key(i: int, sequence: int) -> Key:
        op, lasts = graph.ops[i], graph.duration[i] > 0
        way = op.stage if op.kind == "F" else 2 * model.stages - 1 - op.stage
        return (start[i], lasts, -way if lasts else 0, sequence)

    return [(key(i, first + n), graph.ops[i]) for n, i in enumerate(sorted(walked, key=lambda i: start[i]))]

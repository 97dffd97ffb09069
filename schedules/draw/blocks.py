"""What a Gantt chart shows: an order's ops as blocks, or as rows of pixels where blocks would be too many.

An op of a stage that occupies several ranks is one block over the rows of those that lie side by side.
"""

from dataclasses import dataclass
from typing import Any

from schedules.draw.colors import Color, kind_color
from schedules.order import Op, Order
from schedules.problem import Problem
from schedules.replay import Replay


@dataclass(frozen=True)
class Block:
    """One rectangle: an op from `begin` to `end` over the rows `top` to `bottom`, both included.

    `turn` counts the stages of the op's model that its rank holds before the op's own: 1 on the way back of a V.
    """

    op: Op
    begin: float
    end: float
    top: int
    bottom: int
    turn: int
    color: Color


def blocks_of(problem: Problem, order: Order, result: Replay) -> list[Block]:
    """All blocks, in the sequence of the rows."""
    palette = _palette(problem)
    models = {model.name: model for model in problem.models}
    blocks = []
    for rank, row in enumerate(order.rows):
        for op in row:
            ranks = models[op.model].ranks_of(op.stage)
            if rank - 1 in ranks:  # drawn with the row above
                continue
            bottom = rank
            while bottom + 1 in ranks:
                bottom += 1
            turn = models[op.model].stages_on(rank).index(op.stage)
            color = palette[op.model, op.kind]
            blocks.append(Block(op, result.start[op], result.end[op], rank, bottom, turn, color))
    return blocks


def pixels_of(problem: Problem, order: Order, result: Replay, *, columns: int) -> Any:
    """The chart as an array of colours [rank, column, 3]; white where a rank idles. Later ops win shared columns."""
    import numpy

    palette = _palette(problem)
    image = numpy.ones((problem.ranks, columns, 3))
    scale = columns / (result.makespan or 1.0)
    for rank, row in enumerate(order.rows):
        for op in row:
            image[rank, round(result.start[op] * scale) : round(result.end[op] * scale)] = palette[op.model, op.kind]
    return image


def _palette(problem: Problem) -> dict[tuple[str, str], Color]:
    return {(m.name, kind): kind_color(i, kind) for i, m in enumerate(problem.models) for kind in ("F", "B", "W")}

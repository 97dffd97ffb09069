"""Blocks and pixels cover just what the replay says is busy."""

import numpy
import pytest

from schedules.builders import gpipe, greedy
from schedules.draw.blocks import blocks_of, pixels_of
from schedules.draw.colors import kind_color
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.strategies import for_all, problems

V = Problem(2, (Model("a", [0, 1, 1, 0], 2, 1, 2),))
WIDE = Problem(5, (Model("a", [[0, 1, 3], [2, 4]], 1, 1, 2),))


@for_all(problems())
def test_blocks_cover_each_op_on_each_of_its_ranks_once(problem):
    order = greedy(problem)
    result = replay(problem, order)
    covered = sorted(
        (rank, b.op, b.begin, b.end) for b in blocks_of(problem, order, result) for rank in range(b.top, b.bottom + 1)
    )
    assert covered == sorted(
        (rank, op, result.start[op], result.end[op]) for rank, row in enumerate(order.rows) for op in row
    )


def test_an_op_over_neighbouring_ranks_is_one_block():
    order = gpipe(WIDE)
    spans = [(b.op.stage, b.top, b.bottom) for b in blocks_of(WIDE, order, replay(WIDE, order)) if b.op.kind == "F"]
    assert spans == [(0, 0, 1), (1, 2, 2), (0, 3, 3), (1, 4, 4)]


def test_turn_counts_the_stages_that_a_rank_holds_before():
    order = gpipe(V)
    turns = {b.op.stage: b.turn for b in blocks_of(V, order, replay(V, order))}
    assert turns == {0: 0, 1: 0, 2: 1, 3: 1}


def test_pixels_are_the_blocks_by_hand():
    problem = Problem(2, (Model("a", [0, 1], 1, 1, 2),))
    order = gpipe(problem)
    image = pixels_of(problem, order, replay(problem, order), columns=6)
    forward, backward, idle = kind_color(0, "F"), kind_color(0, "B"), (1, 1, 1)
    assert (
        image.tolist()
        == numpy.array(
            [[forward] + [idle] * 3 + [backward] * 2, [idle, forward, backward, backward, idle, idle]]
        ).tolist()
    )


@pytest.mark.parametrize("columns", [1, 7, 100])
def test_pixels_of_work_without_duration_are_idle(columns):
    problem = Problem(1, (Model("a", [0], 2, 0, 0),))
    assert pixels_of(problem, gpipe(problem), replay(problem, gpipe(problem)), columns=columns).min() == 1

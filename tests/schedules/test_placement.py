"""Placements: the same work in other places."""

import pytest

from schedules.bounds import lower_bound
from schedules.builders import greedy
from schedules.check import check
from schedules.placement import SHAPES, place
from schedules.problem import Model, Problem
from schedules.replay import work_of
from schedules.search.anneal import anneal_makespan
from schedules.search.limits import Limits
from tests.schedules.strategies import for_all, problems


@pytest.mark.parametrize(("shape", "second"), [("v", [2, 1, 0]), ("interleaved", [0, 1, 2])])
def test_shapes_lay_the_halves_of_the_stages(shape, second):
    problem = Problem(3, (Model("a", [0, 1, 2], 1, [2, 4, 8], 6, 3, [[1], [2], [4]]),))
    model = place(problem, shape=shape).model("a")
    assert list(model.placement) == [0, 1, 2, *second]
    assert [model.duration("F", s, 0) for s in range(6)] == [1, 1, 2, 2, 4, 4]
    assert [model.activation_of(s, 0) for s in range(6)] == [0.5, 0.5, 1, 1, 2, 2]
    assert model.duration("B", 0, 0, split=True) == model.duration("W", 0, 0) == 1.5


@pytest.mark.parametrize(
    ("shape", "parts", "placement"),
    [("v", 3, [0, 1, 1, 0, 0, 1]), ("interleaved", 4, [0, 1, 0, 1, 0, 1, 0, 1]), ("v", 1, [0, 1])],
)
def test_more_parts_take_more_rounds_and_share_what_a_stage_costs(shape, parts, placement):
    problem = Problem(2, (Model("a", [0, 1], 1, [3, 12], 6, activation=[6, 3]),))
    model = place(problem, shape=shape, parts=parts).model("a")
    assert list(model.placement) == placement
    assert [model.duration("F", s, 0) for s in range(2 * parts)] == [3 / parts] * parts + [12 / parts] * parts
    assert sum(model.activation_of(s, 0) for s in range(2 * parts)) == 9


@for_all(problems())
def test_the_work_is_the_same_and_any_shape_can_be_solved(problem):
    for shape in SHAPES:
        placed = place(problem.with_cap(None), shape=shape)
        assert sum(work_of(placed)) == pytest.approx(sum(work_of(problem)))
        check(placed, greedy(placed))


def test_models_with_several_stages_on_a_rank_stay():
    problem = Problem(2, (Model("v", [0, 1, 1, 0], 2, 1, 2),))
    assert place(problem, shape="v") == problem == place(problem, shape="interleaved")


def test_split_backward_over_a_v_beats_the_optimum_of_the_line():
    """4 ranks, 4 + 4 micro-batches, serial 1F1B's peak as cap: CP-SAT proves 91 for the line and 87 for the V."""
    actor = Model("actor", [0, 1, 2, 3], 4, 5, 10, 5, activation=1.95)
    critic = Model("critic", [3, 2, 1, 0], 4, 2, 4, 2, activation=1)
    line = Problem(4, (actor, critic), memory_cap=7.8)
    v = place(line, shape="v")
    order = anneal_makespan(v, limits=Limits(float("inf"), steps=200_000), start=greedy(v))
    assert check(v, order).makespan < 91
    assert lower_bound(v) == 87
    assert work_of(line)[0] == 84

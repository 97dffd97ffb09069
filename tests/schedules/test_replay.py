"""Replay: times, bubble ratio and memory by hand; refusal of orders that cannot be replayed."""

from itertools import pairwise

import pytest

from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.order import Op, Order, OrderError
from schedules.problem import Model, Problem
from schedules.replay import bubble_ratio, replay, work_of
from tests.schedules.strategies import for_all, problems

ACTOR = Model("a", [0, 1], 2, 1, 2, activation=3)


def order_of(text, problem):
    return Order.from_text(text, problem)


def test_two_stage_1f1b_by_hand():
    problem = Problem(2, (ACTOR,), comm=0.5)
    result = replay(problem, order_of("a:F0 a:F1 a:B0 a:B1\na:F0 a:B0 a:F1 a:B1\n", problem))
    start = {str(op): time for op, time in result.start.items()}
    assert start == {
        "a:F0@0": 0,
        "a:F1@0": 1,
        "a:F0@1": 1.5,
        "a:B0@1": 2.5,
        "a:F1@1": 4.5,
        "a:B1@1": 5.5,
        "a:B0@0": 5,
        "a:B1@0": 8,
    }
    assert result.makespan == 10
    assert result.bubble_ratio == 1 - 12 / 20
    assert result.peak_memory == (6, 3)


def test_split_backward_holds_memory_to_the_weight_part():
    problem = Problem(1, (Model("a", [0], 2, 1, 3, backward_weight=2, activation=1),))
    late = replay(problem, order_of("a:F0 a:B0 a:F1 a:B1 a:W0 a:W1\n", problem))
    soon = replay(problem, order_of("a:F0 a:B0 a:W0 a:F1 a:B1 a:W1\n", problem))
    whole = replay(problem, order_of("a:F0 a:B0 a:F1 a:B1\n", problem))
    assert (late.makespan, soon.makespan, whole.makespan) == (8, 8, 8)
    assert (late.peak_memory, soon.peak_memory, whole.peak_memory) == ((2,), (1,), (1,))
    assert late.start[Op("a", "F", 1, 0)] == 2  # after F and the input part of B


def test_op_on_several_ranks_waits_for_all_and_counts_on_all():
    problem = Problem(2, (Model("wide", [[0, 1]], 1, 2, activation=1), Model("b", [1], 1, 3)))
    result = replay(problem, order_of("wide:F0\nb:F0 wide:F0\n", problem))
    assert result.start[Op("wide", "F", 0, 0)] == 3
    assert result.peak_memory == (1, 1)
    assert work_of(problem) == [2, 5]
    assert result.bubble_ratio == pytest.approx(1 - 7 / 10)


def test_forward_only_stage_holds_memory_only_while_it_runs():
    problem = Problem(1, (Model("r", [0, 0], 3, 1, activation=4),))
    assert replay(problem, gpipe(problem)).peak_memory == (4,)


@for_all(problems())
def test_start_times_respect_rows_and_data(problem):
    order = greedy(problem)
    result = replay(problem, order)
    for row in order.rows:
        for before, after in pairwise(row):
            assert result.start[after] >= result.end[before]
    for op in result.start:
        if op.kind == "F" and op.stage:
            assert result.start[op] >= result.end[Op(op.model, "F", op.microbatch, op.stage - 1)]
        if op.kind == "B":
            assert result.start[op] >= result.end[Op(op.model, "F", op.microbatch, op.stage)]
    assert result.bubble_ratio == bubble_ratio(problem, result.makespan)


@for_all(problems(wide=False))
def test_every_op_starts_as_soon_as_something_it_waits_for_ends(problem):
    result = replay(problem, serial_1f1b(problem))
    ends = {0.0} | set(result.end.values()) | {end + problem.comm for end in result.end.values()}
    assert set(result.start.values()) <= ends


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:F0 a:F1 a:B0\na:F0 a:B0 a:F1 a:B1\n", "rank 0: a:B1@0 is missing"),
        ("a:F0 a:F1 a:B0 a:B0\na:F0 a:B0 a:F1 a:B1\n", "rank 0, position 3: a:B0@0 stands there a second time"),
        ("a:F0 a:F1 a:B0 a:B1 a:B2\na:F0 a:B0 a:F1 a:B1\n", "rank 0: the problem has no op a:B2@0"),
        ("a:F0 a:F1 a:B0 a:B1\na:B0 a:F0 a:F1 a:B1\n", "ops wait for each other: a:B0@1 waits for a:F0@1 waits for"),
    ],
)
def test_bad_order_names_the_op(text, message):
    problem = Problem(2, (ACTOR,))
    with pytest.raises(OrderError, match=f"^{message}"):
        replay(problem, order_of(text, problem))


def test_op_on_a_rank_that_does_not_hold_its_stage_is_refused():
    problem = Problem(2, (ACTOR,))
    good = serial_1f1b(problem)
    bad = Order((good.rows[0], (*good.rows[1], good.rows[0][0])))
    with pytest.raises(OrderError, match="rank 1: a:F0@0 does not belong there"):
        replay(problem, bad)


def test_cycle_across_ranks_is_named():
    problem = Problem(2, (Model("a", [0, 1], 1, 1), Model("b", [1, 0], 1, 1)))
    order = order_of("b:F0 a:F0\na:F0 b:F0\n", problem)
    with pytest.raises(OrderError) as caught:
        replay(problem, order)
    for op in ("a:F0@0", "a:F0@1", "b:F0@0", "b:F0@1"):
        assert op in str(caught.value)


@pytest.mark.parametrize(("forward", "microbatches"), [(0.1, 3), (0.1, 7), (0.7, 10), (1 / 3, 3), (1.0, 4), (0.0, 2)])
def test_ranks_that_never_wait_have_a_bubble_of_0_whatever_rounding_says(forward, microbatches):
    problem = Problem(1, (Model("a", [0], microbatches, forward, 2 * forward),))
    ratio = replay(problem, gpipe(problem)).bubble_ratio
    assert 0 <= ratio < 1e-12
    assert f"{ratio:.3f}" == "0.000"


@pytest.mark.parametrize("unit", [1e-12, 7.8e-10, 1.0, 1e12])
def test_peak_memory_is_told_in_any_unit(unit):
    problem = Problem(1, (Model("a", [0], 4, 1, 2, activation=unit),))
    assert replay(problem, gpipe(problem)).max_peak_memory == pytest.approx(4 * unit, rel=1e-11)
    assert replay(problem, serial_1f1b(problem)).max_peak_memory == pytest.approx(unit, rel=1e-11)

"""The lower bound equals the published one and is never above any valid makespan."""

import pytest

from schedules.bounds import lower_bound, preemptive_makespan
from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.published import LOWER_BOUND, published
from tests.schedules.strategies import for_all, problems


@pytest.mark.parametrize("index", range(12))
def test_published_lower_bounds_are_reproduced(index):
    assert lower_bound(published(index)) == LOWER_BOUND[index]


@for_all(problems())
def test_no_order_is_faster_than_the_bound(problem):
    for builder in (serial_1f1b, gpipe, greedy):
        assert replay(problem, builder(problem)).makespan >= lower_bound(problem) - 1e-9


def test_one_model_is_bounded_by_its_1f1b_makespan():
    problem = Problem(4, (Model("a", [0, 1, 2, 3], 8, 1, 2),))
    assert lower_bound(problem) == (8 + 3) * 3


def test_communication_on_the_critical_path_counts():
    problem = Problem(2, (Model("a", [0, 1], 1, 1, 2),), comm=0.5)
    assert lower_bound(problem) == 1 + 0.5 + 3 + 0.5 + 2


def test_splitting_lowers_the_bound_to_the_input_parts_on_the_way_back():
    whole = Problem(2, (Model("a", [0, 1], 1, 1, 4),))
    split = Problem(2, (Model("a", [0, 1], 1, 1, 4, backward_weight=2),))
    assert lower_bound(whole) == 10
    assert lower_bound(split) == 1 + 1 + 2 + 4  # W of the last stage runs beside the first stage's backward


def test_a_late_op_with_a_long_tail_preempts():
    assert preemptive_makespan([(0, 10, 0), (5, 1, 10)]) == 16  # without preemption the later op would end at 21


def test_uneven_microbatches_count_one_by_one():
    # rank 1 gets its first work at 1 and its second at 4, just when it is through with the first
    problem = Problem(2, (Model("a", [0, 1], 2, [[1, 3], [3, 3]]),))
    assert lower_bound(problem) == 1 + 3 + 3

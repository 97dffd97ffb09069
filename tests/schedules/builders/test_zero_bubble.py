"""Zero-bubble orders meet their closed forms in 1F1B's memory."""

import pytest

from schedules.bounds import lower_bound
from schedules.builders import serial_1f1b, zero_bubble
from schedules.check import check
from schedules.problem import Model, Problem, ProblemError


def line(ranks, microbatches, *, forward=1, backward=2, weight=1):
    return Problem(ranks, (Model("a", list(range(ranks)), microbatches, forward, backward, weight, activation=1),))


def v_shape(ranks, microbatches):
    placement = [*range(ranks), *reversed(range(ranks))]
    return Problem(ranks, (Model("a", placement, microbatches, 1, 2, 1, activation=1),))


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("more", [0, 1, 5, 16])
def test_h1_meets_the_closed_form_at_1f1b_memory(ranks, more):
    problem = line(ranks, ranks + more)
    result = check(problem, zero_bubble(problem))
    assert result.makespan == 3 * (ranks + more) + ranks - 1 == lower_bound(problem)
    assert result.peak_memory == (ranks,) * ranks


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_v_meets_the_closed_form_at_1f1b_memory(ranks, times):
    problem = v_shape(ranks, ranks * times)
    result = check(problem, zero_bubble(problem))
    assert result.makespan == 6 * ranks * times + ranks - 1 == lower_bound(problem)
    assert result.max_peak_memory == 2 * ranks  # in half-size stages


@pytest.mark.parametrize("microbatches", [1, 2, 3])
def test_fewer_microbatches_than_stages(microbatches):
    for problem in (line(4, microbatches), v_shape(4, microbatches)):
        assert check(problem, zero_bubble(problem)).makespan == lower_bound(problem)


def test_uneven_durations_beat_1f1b():
    problem = line(4, 8, forward=[1, 1, 1, 2], backward=[2, 2, 2, 3], weight=0.8)
    assert check(problem, zero_bubble(problem)).makespan < check(problem, serial_1f1b(problem)).makespan


def test_forward_only_model_passes_through_and_a_missing_weight_part_is_named():
    problem = Problem(2, (Model("reference", [0, 1], 3, 1),))
    assert check(problem, zero_bubble(problem)).makespan == 4
    with pytest.raises(ProblemError, match=r"^a\.backward_weight: a zero-bubble order needs"):
        zero_bubble(Problem(2, (Model("a", [0, 1], 3, 1, 2),)))

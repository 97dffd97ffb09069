"""Interleaved 1F1B meets its closed forms, over any round placement."""

import pytest

from schedules.builders import interleaved_1f1b, serial_1f1b
from schedules.check import check
from schedules.problem import Model, Problem, ProblemError


def problem_of(*, ranks, chunks, microbatches, backward=2, order=None):
    placement = (order or list(range(ranks))) * chunks
    return Problem(ranks, (Model("a", placement, microbatches, 1, backward, activation=1),))


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_makespan_and_memory_meet_the_closed_forms(ranks, chunks, groups):
    problem = problem_of(ranks=ranks, chunks=chunks, microbatches=ranks * groups)
    result = check(problem, interleaved_1f1b(problem))
    assert result.makespan == (ranks * groups * chunks + ranks - 1) * 3
    in_flight = [min(ranks * groups * chunks, 2 * (ranks - 1 - r) + (chunks - 1) * ranks + 1) for r in range(ranks)]
    assert list(result.peak_memory) == in_flight


def test_one_chunk_takes_as_long_as_1f1b():
    problem = problem_of(ranks=4, chunks=1, microbatches=8)
    assert check(problem, interleaved_1f1b(problem)).makespan == check(problem, serial_1f1b(problem)).makespan


def test_reversed_models_interleave_too():
    problem = problem_of(ranks=3, chunks=2, microbatches=6, order=[2, 1, 0])
    assert check(problem, interleaved_1f1b(problem)).makespan == (6 * 2 + 2) * 3


def test_forward_only_models_interleave_too():
    problem = problem_of(ranks=3, chunks=2, microbatches=6, backward=None)
    assert check(problem, interleaved_1f1b(problem)).makespan == 6 * 2 + 2


@pytest.mark.parametrize(
    ("placement", "microbatches"), [([0, 1, 1, 0], 2), ([0, 1, 0], 2), ([0, 1, 0, 1], 3), ([[0, 1], [1, 0]], 2)]
)
def test_other_placements_and_odd_counts_are_refused(placement, microbatches):
    problem = Problem(2, (Model("a", placement, microbatches, 1, 2),))
    with pytest.raises(ProblemError, match=r"a\.placement: interleaving needs stage s on rank s mod p"):
        interleaved_1f1b(problem)

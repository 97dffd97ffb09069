"""Solving: every method's result is checked, measured against the bound, and honest about proof."""

import pytest

from schedules.order import OrderError
from schedules.problem import Model, Problem, ProblemError
from schedules.search.limits import Limits
from schedules.solve import METHODS, meets, solve
from tests.schedules.published import published

SPECIAL = ("interleaved", "zero-bubble")  # builders that suit some problems only


@pytest.mark.parametrize("method", [m for m in METHODS if m not in SPECIAL])
def test_every_general_method_solves_a_fused_problem(method):
    solution = solve(published(5), method=method, limits=Limits(seconds=30, steps=50_000))
    assert solution.replay.makespan >= solution.lower_bound == 225
    assert solution.method == method
    assert solution.seconds > 0


@pytest.mark.parametrize("method", SPECIAL)
def test_special_builders_solve_what_suits_them_and_refuse_the_rest(method):
    suits = Problem(2, (Model("a", [0, 1, 0, 1], 4, 1, 2, 1),))
    assert solve(suits, method=method).replay.makespan >= 24
    with pytest.raises(ProblemError, match=r"a\.(placement|backward_weight): "):
        solve(Problem(2, (Model("a", [0, 1, 1], 4, 1, 2),)), method=method)


def test_proof_is_claimed_only_where_the_bound_is_met():
    alone = Problem(2, (Model("a", [0, 1], 4, 1, 2),))
    assert solve(alone, method="serial").proved_optimal
    assert not solve(published(5), method="serial").proved_optimal
    assert not meets(225.1, 225)


def test_builder_that_breaks_the_cap_is_refused():
    with pytest.raises(OrderError, match=r"rank 0: peak memory 15.6 is above memory_cap 8"):
        solve(published(5).with_cap(8), method="serial")

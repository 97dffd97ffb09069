"""Solving: every method's result is checked, measured against the bound, and honest about proof."""

import pytest

from schedules.builders import serial_1f1b
from schedules.check import check
from schedules.order import OrderError
from schedules.placement import SHAPES, place
from schedules.problem import Model, Problem, ProblemError
from schedules.search.limits import Limits
from schedules.search.robust import mean_makespan
from schedules.solve import GENERAL, METHODS, STARTING, meets, solve, solve_placements, solve_robust
from tests.schedules.published import published


@pytest.mark.parametrize("method", GENERAL)
def test_every_general_method_solves_a_fused_problem(method):
    solution = solve(published(5), method=method, limits=Limits(seconds=30, steps=50_000))
    assert solution.replay.makespan >= solution.lower_bound == 225
    assert solution.method == method
    assert solution.seconds > 0


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(GENERAL)))
def test_special_builders_solve_what_suits_them_and_refuse_the_rest(method):
    suits = Problem(2, (Model("a", [0, 1, 0, 1], 4, 1, 2, 1),))
    assert solve(suits, method=method).replay.makespan >= 24
    with pytest.raises(ProblemError, match=r"a\.(placement|backward_weight): "):
        solve(Problem(2, (Model("a", [0, 1, 1], 4, 1, 2),)), method=method)


def test_best_placement_is_found_and_its_problem_told():
    actor, critic = Model("a", [0, 1], 4, 2, 4, 2, activation=2), Model("b", [1, 0], 4, 2, 4, 2, activation=2)
    problem = Problem(2, (actor, critic), memory_cap=4)
    best = solve_placements(problem, method="greedy")
    each = [solve(place(problem, shape=shape), method="greedy") for shape in SHAPES]
    assert best.replay.makespan == min(s.replay.makespan for s in each)
    assert check(best.problem, best.order) == best.replay


def test_robust_order_is_near_optimal_and_no_worse_under_jitter_than_the_first_found():
    problem, limits = published(5).with_cap(16.7), Limits(float("inf"), steps=80_000)
    chosen = solve_robust(problem, method="anneal", limits=limits, jitter=0.1)
    first = solve(problem, method="anneal", limits=limits.part(1 / 4))
    times = [mean_makespan(problem, s.order, jitter=0.1) for s in (chosen, first)]
    assert times[0] <= times[1]
    assert chosen.replay.makespan <= first.replay.makespan * 1.02


def test_proof_is_claimed_only_where_the_bound_is_met():
    alone = Problem(2, (Model("a", [0, 1], 4, 1, 2),))
    assert solve(alone, method="serial").proved_optimal
    assert not solve(published(5), method="serial").proved_optimal
    assert not meets(225.1, 225)


def test_builder_that_breaks_the_cap_is_refused():
    with pytest.raises(OrderError, match=r"rank 0: peak memory 15.6 is above memory_cap 8"):
        solve(published(5).with_cap(8), method="serial")


@pytest.mark.parametrize("method", STARTING)
def test_search_without_steps_ends_with_the_order_it_starts_from(method):
    problem, nothing = published(5), Limits(float("inf"), steps=0)
    started = solve(problem, method=method, limits=nothing, start=serial_1f1b(problem))
    assert started.order == serial_1f1b(problem) != solve(problem, method=method, limits=nothing).order


def test_start_is_checked_before_the_search_and_refused_by_methods_that_start_from_nothing(monkeypatch):
    problem = published(5)
    monkeypatch.setattr("schedules.search.anneal.anneal", lambda *_, **__: pytest.fail("searched"))
    with pytest.raises(OrderError, match=r"peak memory 15\.6 is above memory_cap 8"):
        solve(problem.with_cap(8), method="anneal", start=serial_1f1b(problem))
    with pytest.raises(ProblemError, match="start: method greedy starts from no order; those that do are anneal"):
        solve(problem, method="greedy", start=serial_1f1b(problem))

"""Models apart: on each rank one after the other, and no worse than their closed form."""

import pytest

from schedules.bench.problems import capped, published
from schedules.check import check
from schedules.problem import Model, Problem
from schedules.search.apart import in_turn, solve_apart
from schedules.search.limits import Limits
from schedules.solve import solve


@pytest.mark.parametrize("name", ["exp2", "exp5"])
def test_no_rank_begins_a_model_before_it_is_done_with_the_one_before(name):
    problem = capped(published(name), ratio=1.0)
    solution = solve_apart(problem, method="anneal", limits=Limits(float("inf"), steps=1000))
    for row in solution.order.rows:
        turns = [op.model for op in row]
        assert turns == sorted(turns)  # actor, then a critic
    assert check(problem, solution.order) == solution.replay
    assert solution.replay.makespan <= solve(problem, method="serial").replay.makespan


def test_copies_that_share_no_rank_take_their_turn_together():
    assert [[model.name for model in turn] for turn in in_turn(published("exp0"))] == [
        ["actor"],
        ["critic0", "critic1"],
    ]


def splittable():
    models = [
        Model(name, rows, 6, time, 2 * time, time, activation=1)
        for name, rows, time in (("a", [0, 1, 2], 2), ("b", [2, 1, 0], 1))
    ]
    return Problem(3, tuple(models), memory_cap=3)


def test_the_search_over_all_models_gains_on_each_one_s_best_alone():
    problem = splittable()
    alone = solve_apart(problem, method="serial", limits=Limits(float("inf"), steps=0))
    found = solve_apart(problem, method="serial", limits=Limits(float("inf"), steps=20_000))
    assert found.replay.makespan < alone.replay.makespan
    assert found.replay.max_peak_memory <= 3
    assert (found.method, found.lower_bound) == ("serial-apart", solve(problem, method="serial").lower_bound)


def test_steps_make_it_reproducible():
    limits = Limits(float("inf"), steps=20_000)
    orders = [solve_apart(splittable(), method="tabu", limits=limits).order for _ in range(2)]
    assert orders[0] == orders[1]

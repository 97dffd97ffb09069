"""The annealing: never worse, both phases gain, the same for the same seed."""

import pytest

from schedules.bounds import lower_bound
from schedules.builders import greedy
from schedules.check import check
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.anneal import anneal, anneal_makespan, anneal_memory
from schedules.search.limits import Limits
from tests.schedules.published import published
from tests.schedules.strategies import for_all, problems

FREE = Limits(seconds=float("inf"), steps=100_000)


@for_all(problems(), examples=15)
def test_never_worse_than_its_start_and_always_valid(problem):
    start = greedy(problem)
    found = check(problem, anneal(problem, limits=Limits(float("inf"), steps=2000), start=start))
    assert lower_bound(problem) - 1e-9 <= found.makespan <= replay(problem, start).makespan


def test_first_phase_shortens_under_a_cap_and_stops_at_the_bound():
    capped = published(5).with_cap(15.6)
    start = greedy(capped)
    found = check(capped, anneal_makespan(capped, limits=FREE, start=start))
    assert found.makespan < replay(capped, start).makespan
    free = published(5)
    order = anneal_makespan(free, limits=Limits(seconds=float("inf")), start=greedy(free))  # the bound alone ends it
    assert replay(free, order).makespan == 225


def test_second_phase_lowers_memory_at_the_same_makespan():
    problem = published(5)
    start = greedy(problem)
    found = replay(problem, anneal_memory(problem, limits=FREE, start=start, enough=15.6))
    before = replay(problem, start)
    assert found.makespan <= before.makespan
    assert found.max_peak_memory < before.max_peak_memory


def test_same_seed_same_order_and_another_seed_another():
    problem = published(5).with_cap(15.6)
    orders = [
        anneal(problem, limits=Limits(float("inf"), steps=20_000, seed=seed), start=greedy(problem))
        for seed in (3, 3, 4)
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("steps", [0, 1])
def test_hardly_any_steps(steps):
    problem = published(5)
    assert check(problem, anneal(problem, limits=Limits(float("inf"), steps=steps))).makespan <= 227


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**20, 1e-12])
def test_units_of_time_and_memory_do_not_matter(unit):
    one, other = (anneal(crossed(u), limits=Limits(seconds=60, steps=20_000)) for u in (1.0, unit))
    assert unit == 1e-12 or other == one  # no rounding divides the two where the unit is a power of two
    assert check(crossed(unit), other).makespan <= replay(crossed(unit), greedy(crossed(unit))).makespan


def crossed(unit):
    models = (
        Model("a", [0, 1, 2, 3], 6, 5 * unit, 10 * unit, activation=2 * unit),
        Model("b", [3, 2, 1, 0], 6, 2 * unit, 4 * unit, activation=unit),
    )
    return Problem(4, models, memory_cap=9 * unit)

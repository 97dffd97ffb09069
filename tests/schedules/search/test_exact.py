"""CP-SAT: the optimum of exhaustive search, honest bounds, the cap, reproducible in steps."""

from itertools import permutations, product

import pytest

from schedules.bounds import lower_bound
from schedules.builders import greedy, serial_1f1b
from schedules.check import check
from schedules.order import Order, OrderError
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.exact import least_makespan, least_memory
from schedules.search.limits import Limits
from tests.schedules.strategies import for_all, problems

QUICK = Limits(seconds=60)


def every_order(problem):
    rows = [list(row) for row in greedy(problem).rows]
    for choice in product(*(permutations(row) for row in rows)):
        try:
            yield check(problem, Order(choice))
        except OrderError:
            continue


SMALL = (Model("a", [0, 1], 1, [2, 1], 3, activation=1), Model("b", [1, 0], 1, [1, 2], [4, 1], activation=1))


@pytest.mark.parametrize("cap", [None, 1])
def test_equals_exhaustive_search(cap):
    problem = Problem(2, SMALL, comm=0.5, memory_cap=cap)
    best = min(result.makespan for result in every_order(problem))
    found = least_makespan(problem, limits=QUICK)
    assert check(problem, found.order).makespan == found.bound == best


def test_least_memory_equals_exhaustive_search_at_that_makespan():
    problem = Problem(2, SMALL)
    start = greedy(problem)
    limit = replay(problem, start).makespan
    best = min(r.max_peak_memory for r in every_order(problem) if r.makespan <= limit)
    found = least_memory(problem, start=start, limits=QUICK)
    assert check(problem, found.order).max_peak_memory == found.bound == best


def test_sharing_and_splitting_are_proved_to_help():
    """Three stages, two micro-batches each: fused is shorter than one model after the other, split shorter still."""
    times = []
    for weights in ((None, None), (5, 2)):
        actor = Model("actor", [0, 1, 2], 2, 5, 10, weights[0], activation=1)
        critic = Model("critic", [2, 1, 0], 2, 2, 4, weights[1], activation=1)
        problem = Problem(3, (actor, critic), memory_cap=3)
        found = least_makespan(problem, limits=QUICK)
        assert check(problem, found.order).makespan == found.bound
        times.append(found.bound)
    assert times[1] < times[0] < replay(problem, serial_1f1b(problem)).makespan


@for_all(problems(), examples=15)
def test_always_valid_and_never_worse_than_greedy(problem):
    found = least_makespan(problem, limits=Limits(seconds=0.5))
    result = check(problem, found.order)
    assert lower_bound(problem) <= found.bound <= result.makespan + 1e-6
    assert result.makespan <= replay(problem, greedy(problem)).makespan


def test_no_proof_is_claimed_where_numbers_are_rounded():
    problem = Problem(2, (Model("a", [0, 1], 2, 1 / 3, 2 / 3), Model("b", [1, 0], 2, 1 / 7, 1)))
    found = least_makespan(problem, limits=Limits(seconds=5))
    assert found.bound == lower_bound(problem)


def test_steps_make_it_reproducible():
    models = [Model(n, p, 3, 2, 3, activation=1) for n, p in (("a", [0, 1, 2]), ("b", [2, 1, 0]))]
    problem = Problem(3, tuple(models), memory_cap=3)
    orders = [least_makespan(problem, limits=Limits(steps=20_000, seed=5)).order for _ in range(2)]
    assert orders[0] == orders[1]


def test_durations_beyond_whole_numbers_of_the_solver_still_get_an_order():
    problem = Problem(2, (Model("a", [0, 1], 3, 1e100, 2e99),))
    assert check(problem, least_makespan(problem, limits=QUICK).order).makespan < 1e101

"""CP-SAT: the optimum of exhaustive search, honest bounds, the cap, reproducible in steps."""

from itertools import permutations, product
from math import e, inf, pi

import pytest
from hypothesis import strategies as st

from schedules.bounds import lower_bound
from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.check import check
from schedules.order import Order, OrderError
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.exact import Answer, least_makespan, least_memory, within
from schedules.search.limits import Limits
from tests.schedules.strategies import DURATIONS, for_all, problems

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
    models = (Model("a", [0, 1, 2], 3, 2**0.5, 3**0.5, activation=1), Model("b", [2, 1, 0], 3, pi, e, activation=1))
    problem = Problem(3, models, memory_cap=2)
    found = least_makespan(problem, limits=QUICK)
    assert found.bound == lower_bound(problem) < check(problem, found.order).makespan


def test_steps_make_it_reproducible():
    models = [Model(n, p, 3, 2, 3, activation=1) for n, p in (("a", [0, 1, 2]), ("b", [2, 1, 0]))]
    problem = Problem(3, tuple(models), memory_cap=3)
    orders = [least_makespan(problem, limits=Limits(steps=20_000, seed=5)).order for _ in range(2)]
    assert orders[0] == orders[1]


def test_durations_beyond_whole_numbers_of_the_solver_still_get_an_order():
    problem = Problem(2, (Model("a", [0, 1], 3, 1e100, 2e99),))
    assert check(problem, least_makespan(problem, limits=QUICK).order).makespan < 1e101


def test_a_cap_beside_small_activations():
    problem = Problem(1, (Model("a", [0, 0], 2, 1, 2, activation=[1, 1e-7]),), memory_cap=3)
    found = least_makespan(problem, limits=QUICK)
    assert check(problem, found.order).makespan == found.bound == 12


def test_the_same_orders_in_seconds_and_in_nanoseconds():
    def crossed(unit):
        return Problem(
            2, tuple(Model(n, p, 4, f * unit, 2 * f * unit) for n, p, f in (("a", [0, 1], 5), ("b", [1, 0], 2)))
        )

    one, tiny = (least_makespan(crossed(unit), limits=Limits(60, 500_000)) for unit in (1.0, 1e-9))
    assert tiny.order == one.order
    assert tiny.bound == pytest.approx(one.bound * 1e-9)


def bests(problem):
    """(makespan, peak) of every order that no other beats in both."""
    results = {(r.makespan, r.max_peak_memory) for r in every_order(problem)}
    return {a for a in results if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in results)}


@for_all(st.lists(DURATIONS, min_size=8, max_size=8), st.sampled_from([0, 0.5]), examples=6)
def test_within_equals_exhaustive_search(times, comm):
    models = (
        Model("a", [0, 1], 1, times[:2], [1 + t for t in times[2:4]], activation=[1, 2]),
        Model("b", [1, 0], 1, times[4:6], [1 + t for t in times[6:]], activation=[1, 1.5]),
    )
    problem = Problem(2, models, comm=comm)
    front = bests(problem)
    for makespan in {m + d for m, _ in front for d in (0, -0.05)}:
        for peak in (1.9, 2, 2.5, 3.0, 3.5, inf):
            exists = any(m <= makespan + 1e-9 and p <= peak for m, p in front)
            answer = within(problem, makespan=makespan, peak=peak, limits=QUICK)
            assert answer.impossible is not exists
            assert (answer.order is not None) is exists
            if answer.order is not None:
                result = check(problem, answer.order)
                assert result.makespan <= makespan * (1 + 1e-9)
                assert result.max_peak_memory <= peak


@for_all(problems(), st.sampled_from([1, 1.1, 1.5]), examples=20)
def test_credits_find_orders_within_and_prove_nothing_wrong(problem, room):
    result = replay(problem, greedy(problem))
    limits = {"makespan": lower_bound(problem) * room, "peak": max(result.max_peak_memory, 0.5) * 1.1}
    credits_ = within(problem, **limits, limits=Limits(steps=20_000), memory="credits")
    if credits_.order is not None:
        found = check(problem, credits_.order)
        assert found.makespan <= limits["makespan"] * (1 + 1e-9)
        assert found.max_peak_memory <= limits["peak"] * (1 + 1e-9)
    if credits_.impossible:
        assert within(problem, **limits, limits=Limits(steps=20_000)).order is None


TRIO = Problem(3, tuple(Model(n, p, 3, 1, 2, activation=1) for n, p in (("a", [0, 1, 2]), ("b", [2, 1, 0]))))
NONE = Limits(seconds=60, steps=0)
CROSSED = Problem(2, (Model("a", [0, 1], 3, 1, 2, activation=1), Model("b", [1, 0], 3, 1, 2, activation=1)))


def test_within_answers_without_a_search_where_bounds_or_the_start_tell():
    bound, start = lower_bound(CROSSED), greedy(CROSSED)
    result = replay(CROSSED, start)
    assert within(CROSSED, makespan=bound * 0.99, peak=9, limits=NONE) == Answer(impossible=True)
    assert within(CROSSED, makespan=99, peak=0.99, limits=NONE) == Answer(impossible=True)
    fits = within(CROSSED, makespan=result.makespan, peak=result.max_peak_memory, limits=NONE, start=start)
    assert fits == Answer(start)
    assert within(CROSSED, makespan=bound, peak=2, limits=NONE, start=serial_1f1b(CROSSED)) == Answer()


def test_within_keeps_the_cap_of_the_problem():
    answer = within(CROSSED.with_cap(2), makespan=99, peak=3, limits=QUICK, start=gpipe(CROSSED))
    assert check(CROSSED.with_cap(2), answer.order).max_peak_memory == 2


def test_credits_prove_where_they_are_the_cap_and_nowhere_else():
    alone = Problem(2, (Model("a", [0, 1], 2, 1, 2, activation=1),))
    assert within(alone, makespan=11, peak=1, limits=QUICK, memory="credits") == Answer(impossible=True)
    assert within(alone, makespan=12, peak=1, limits=QUICK, memory="credits").order is not None
    assert least_makespan(alone.with_cap(1), limits=QUICK, memory="credits").bound == 12
    limits = {"makespan": 26, "peak": 2, "limits": QUICK}
    assert within(TRIO, **limits).order is not None
    assert within(TRIO, **limits, memory="credits") == Answer()


def test_credits_prove_no_bound_on_a_makespan_that_the_cap_allows_to_beat():
    problem = TRIO.with_cap(2)
    exact, credits_ = (least_makespan(problem, limits=QUICK, memory=memory) for memory in ("cumulative", "credits"))
    assert exact.bound == check(problem, exact.order).makespan < check(problem, credits_.order).makespan
    assert credits_.bound == lower_bound(problem)


@pytest.mark.parametrize("memory", ["cumulative", "credits"])
def test_within_gives_the_same_order_for_the_same_seed_and_steps(memory):
    limits = {"makespan": lower_bound(CROSSED) * 1.1, "peak": 3, "start": serial_1f1b(CROSSED)}
    first, second = (within(CROSSED, **limits, limits=Limits(steps=50_000, seed=7), memory=memory) for _ in range(2))
    assert first.order is not None
    assert first == second

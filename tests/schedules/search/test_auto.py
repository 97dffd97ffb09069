"""auto: stops where the bound is met, respects the cap, polishes memory where there is no cap."""

import time

from schedules.builders import greedy
from schedules.check import check
from schedules.problem import Model, Problem
from schedules.search.auto import auto, polish
from schedules.search.limits import Limits
from tests.schedules.published import published


def test_proved_problem_with_low_memory_ends_at_once():
    problem = Problem(2, (Model("a", [0, 1], 4, 1, 2, activation=1),))
    began = time.perf_counter()
    found = auto(problem, limits=Limits(seconds=60))
    assert check(problem, found.order).makespan == found.bound == 15
    assert time.perf_counter() - began < 20


def test_published_problem_is_proved_and_polished():
    problem = published(5)
    found = auto(problem, limits=Limits(seconds=120, steps=600_000))
    result = check(problem, found.order)
    assert result.makespan == found.bound == 225
    assert result.max_peak_memory < 18


def test_under_a_cap_memory_is_left_as_it_is():
    problem = published(5).with_cap(20)
    start = greedy(problem)
    assert polish(problem, limits=Limits(seconds=60), start=start) is start
    assert polish(problem.with_cap(None), limits=Limits(seconds=60, steps=50_000), start=start) != start


def test_cap_is_kept():
    problem = published(2).with_cap(15.6)
    found = auto(problem, limits=Limits(seconds=30, steps=100_000))
    result = check(problem, found.order)
    assert 225 <= found.bound <= result.makespan < 297

"""auto: stops where the bound is met, respects the cap, polishes memory where there is no cap."""

import time

from schedules.check import check
from schedules.problem import Model, Problem
from schedules.search.auto import auto
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
    found = auto(problem, limits=Limits(seconds=120, steps=200_000))
    result = check(problem, found.order)
    assert result.makespan == found.bound == 225
    assert result.max_peak_memory == 15.6


def test_cap_is_kept():
    problem = published(2).with_cap(15.6)
    found = auto(problem, limits=Limits(seconds=30, steps=100_000))
    result = check(problem, found.order)
    assert result.makespan == found.bound == 225
    assert result.max_peak_memory <= 15.6

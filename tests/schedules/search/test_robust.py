"""Robust choice: jitter is fair, reproducible, and picks the order that stands it."""

import pytest

from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.order import Order
from schedules.passes import split_backward
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search import robust
from schedules.search.robust import mean_makespan, most_robust
from tests.schedules.published import published
from tests.schedules.strategies import for_all, problems


@for_all(problems(), examples=20)
def test_without_jitter_the_mean_is_the_makespan(problem):
    order = greedy(problem)
    assert mean_makespan(problem, order, jitter=0.0, samples=2) == pytest.approx(replay(problem, order).makespan)


def test_jitter_costs_time_on_average_and_more_jitter_more():
    problem = published(5)
    order = serial_1f1b(problem)
    means = [mean_makespan(problem, order, jitter=jitter) for jitter in (0.0, 0.05, 0.2)]
    assert means[0] < means[1] < means[2]


def test_same_seed_same_mean_and_another_seed_another():
    problem = published(5)
    order = greedy(problem)
    means = [mean_makespan(problem, order, jitter=0.1, samples=3, seed=seed) for seed in (1, 1, 2)]
    assert means[0] == means[1] != means[2]


def test_equal_planned_times_are_told_apart_by_what_waits():
    """Rank 1 takes b while it waits for a, or makes b wait for a's late arrival: planned the same, jittered not."""
    problem = Problem(2, (Model("a", [0, 1], 1, [4, 1]), Model("b", [1], 1, 3.9)))
    early = Order.from_text("a:F0\nb:F0 a:F0\n", problem)
    late = Order.from_text("a:F0\na:F0 b:F0\n", problem)
    assert most_robust(problem, [late, early], jitter=0.1) == early


def test_orders_far_from_the_shortest_are_no_candidates(monkeypatch):
    """However well they stand jitter: here the longer an order is planned, the better it stands it."""
    problem = published(5)
    monkeypatch.setattr(robust, "mean_makespan", lambda problem, order, **_: -replay(problem, order).makespan)
    assert most_robust(problem, [serial_1f1b(problem), gpipe(problem), greedy(problem)], jitter=0.2) == greedy(problem)


def test_an_op_draws_the_same_in_split_and_whole_orders():
    problem = Problem(1, (Model("a", [0], 3, 1, 2, backward_weight=0), Model("b", [0], 3, 1)))
    whole = serial_1f1b(problem)
    times = [mean_makespan(problem, order, jitter=0.2, samples=4) for order in (whole, split_backward(problem, whole))]
    assert times[0] == pytest.approx(times[1])

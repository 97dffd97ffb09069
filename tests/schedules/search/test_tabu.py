"""Tabu search: goes on from run to run, starts again from other rows, keeps the cap up to sums in floating point."""

import numpy as np
import pytest

from schedules.bounds import lower_bound
from schedules.builders import greedy, serial_1f1b
from schedules.check import check
from schedules.passes import split_backward
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.tabu import Tabu
from tests.schedules.published import published
from tests.schedules.strategies import for_all, problems


def order_of_best(tabu):
    return tabu.layout.order(tabu.best)


@for_all(problems())
def test_before_a_run_best_is_the_start_with_every_backward_split_that_may_be(problem):
    start = greedy(problem)
    tabu = Tabu(problem, start, seed=0)
    result = replay(problem, start)
    assert order_of_best(tabu) == split_backward(problem, start)
    assert tabu.measure(tabu.best) == (result.makespan, result.max_peak_memory)


@for_all(problems(capped=False), examples=40)
def test_what_a_run_tells_of_its_best_rows_is_replay_s(problem):
    """The problem has no cap: each run has its own."""
    tabu = Tabu(problem, greedy(problem), seed=0)
    cap = max(problem.least_memory(rank) for rank in range(problem.ranks))
    for room in (np.inf, 1.5 * cap, cap):
        found = tabu.run(80, cap=room, goal=lower_bound(problem))
        if found < np.inf:
            result = check(problem, order_of_best(tabu))
            assert found == pytest.approx(result.makespan, abs=1e-7)
            assert result.max_peak_memory <= room * (1 + 1e-9)
            assert tabu.measure(tabu.best) == (result.makespan, result.max_peak_memory)


def test_a_cap_of_so_many_activations_takes_that_many():
    """Three of 0.1 come to a little more than 0.3 in floating point."""
    problem = Problem(1, (Model("a", [0], 3, 1, 1, activation=0.1),))
    tabu = Tabu(problem, greedy(problem), seed=0)
    tabu.restart(np.array([[0, 1, 2, 3, 4, 5]]))
    assert tabu.run(0, cap=0.3, goal=6) == 6
    tabu.restart(np.array([[0, 1, 2, 3, 4, 5]]))
    assert tabu.run(0, cap=0.29, goal=6) == np.inf


def test_a_run_goes_on_where_the_one_before_ended():
    tabu = Tabu(published(5), greedy(published(5)), seed=0)
    tabu.run(500, cap=15.6, goal=1.0)
    rows, learned = tabu.layout.rows.copy(), tabu.steps.copy()
    tabu.run(0, cap=15.6, goal=1.0)
    assert np.array_equal(tabu.layout.rows, rows)
    assert tabu.steps.tolist() == learned.tolist()
    tabu.run(500, cap=15.6, goal=1.0)
    assert tabu.steps[0] == 1000
    assert not np.array_equal(tabu.layout.rows, rows)


def test_restart_goes_on_from_other_rows():
    problem = published(5)
    serial = Tabu(problem, serial_1f1b(problem), seed=0)
    tabu = Tabu(problem, greedy(problem), seed=0)
    tabu.run(500, cap=np.inf, goal=1.0)
    tabu.restart(serial.best)
    assert tabu.run(0, cap=np.inf, goal=1.0) == replay(problem, serial_1f1b(problem)).makespan
    assert order_of_best(tabu) == serial_1f1b(problem)


def test_apart_keeps_each_model_s_place():
    problem = published(5)
    free, apart = (Tabu(problem, serial_1f1b(problem), seed=0, apart=flag) for flag in (False, True))
    for tabu in (free, apart):
        tabu.run(500, cap=np.inf, goal=225)
    sequences = [[[op.model for op in row] for row in order_of_best(tabu).rows] for tabu in (free, apart)]
    assert sequences[1] == [sorted(row) for row in sequences[1]] != sequences[0]
    assert apart.measure(apart.best)[0] > free.measure(free.best)[0]


@pytest.mark.parametrize("activation", [0, 1])
def test_works_without_memory_and_without_durations(activation):
    problem = Problem(2, (Model("a", [0, 1], 3, 0, 0, activation=activation), Model("b", [1, 0], 3, 0)))
    tabu = Tabu(problem, greedy(problem), seed=0)
    assert tabu.run(100, cap=1.0, goal=-1.0) == 0

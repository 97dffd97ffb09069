"""The compiled loop: its replay is the oracle's, and its books are right after any number of swaps."""

import numpy as np

from schedules.builders import greedy
from schedules.check import check
from schedules.graph import build_graph, every_split
from schedules.passes import split_backward
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.kernel import anneal_steps, excess_of, replay_rows
from schedules.search.state import order_of_rows, rows_of, settle, tables_of
from tests.schedules.published import published
from tests.schedules.strategies import for_all, problems


def start(problem):
    order = split_backward(problem, greedy(problem))
    graph = build_graph(problem, split=every_split(problem))
    return graph, order, tables_of(graph), rows_of(graph, order)


def run(problem, *, steps, seed=1, weight_time=1.0, limit=np.inf, target=np.inf):
    graph, _, tables, rows = start(problem)
    random = np.array([seed], dtype=np.uint64)
    best = rows.ops.copy()
    result = anneal_steps(tables, rows, best, random, problem.room, target, limit, weight_time, 2.0, 0.1, steps)
    return graph, tables, rows, best, result


@for_all(problems())
def test_replay_equals_the_oracle(problem):
    graph, order, tables, rows = start(problem)
    scratch = [np.empty(len(graph.ops), np.int64) for _ in range(2)]
    makespan = replay_rows(tables, rows, *scratch, np.inf)
    result = replay(problem, order)
    assert makespan == result.makespan
    assert dict(zip(graph.ops, rows.start.tolist(), strict=True)) == result.start
    assert replay_rows(tables, rows, *scratch, makespan) == makespan
    if makespan > 0:
        assert replay_rows(tables, rows, *scratch, makespan - 1e-6) == np.inf


@for_all(problems(), examples=60)
def test_any_walk_keeps_the_order_valid_and_within_the_cap(problem):
    graph, _, rows, best, (energy, makespan) = run(problem, steps=400)
    order = order_of_rows(graph, rows._replace(ops=best))
    assert check(problem, order).makespan == makespan == energy
    check(problem, order_of_rows(graph, rows))


@for_all(problems(), examples=60)
def test_books_after_a_walk_equal_fresh_ones(problem):
    graph, _, rows, _, _ = run(problem, steps=300, target=1.0)
    fresh = rows._replace(place=rows.place.copy(), held=np.zeros_like(rows.held))
    settle(graph, fresh)
    assert rows.place.tolist() == fresh.place.tolist()
    for rank, length in enumerate(rows.length):
        np.testing.assert_allclose(rows.held[rank, :length], fresh.held[rank, :length], atol=1e-9)


def test_energy_is_time_and_memory_above_the_target():
    problem = Problem(2, (Model("a", [0, 1], 6, 1, 2, activation=1), Model("b", [1, 0], 6, 1, 2, activation=1)))
    graph, tables, rows, best, (energy, makespan) = run(problem, steps=3000, target=2.0, weight_time=0.5)
    rows.ops[:] = best
    settle(graph, rows)
    assert abs(energy - (0.5 * makespan + excess_of(tables, rows, 2.0))) < 1e-9


def test_limit_holds_while_memory_falls():
    problem = published(5)
    _, order, tables, rows = start(problem)
    before, limit = excess_of(tables, rows, 15.6), replay(problem, order).makespan
    graph, tables, rows, best, (excess, makespan) = run(
        problem, steps=20_000, weight_time=0.0, limit=limit, target=15.6
    )
    assert makespan <= limit
    assert excess < before
    assert replay(problem, order_of_rows(graph, rows._replace(ops=best))).makespan == makespan

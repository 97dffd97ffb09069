"""Longest paths: replay's starts, brute force's tails, memory by its definition, infinity at a circle."""

from functools import cache

import numpy as np

from schedules.order import OrderError
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.replay import walk as replay_walk
from schedules.search.layout import DURATION, START, TAIL
from schedules.search.longest import earliest_start, longest_after, makespan_of, refresh
from tests.schedules.search.laid_out import (
    SEEDS,
    afresh,
    check_sequence,
    edges,
    equal,
    laid_out,
    memory_of,
    settled,
    walk,
)
from tests.schedules.strategies import for_all, problems

CAPS = (0.0, 1.0, 2.5, 4.0)


def after_a_walk(problem, seed):
    """Rows that no builder makes, settled."""
    layout = laid_out(problem)
    for mover, move in walk(problem, seed=seed):
        mover.make(*move)
        layout = mover.layout
    return afresh(layout)


@for_all(problems(), SEEDS, examples=80)
def test_starts_and_makespan_are_replay_s(problem, seed):
    layout, makespan = after_a_walk(problem, seed)
    result = replay(problem, layout.order(layout.rows))
    assert makespan == result.makespan == makespan_of(layout.real, layout.rows, layout.lengths)
    assert dict(zip(layout.graph.ops, layout.real[:, START].tolist(), strict=True)) == result.start
    check_sequence(layout)


@for_all(problems(), SEEDS)
def test_tails_are_the_longest_ways_to_the_end(problem, seed):
    layout, makespan = after_a_walk(problem, seed)
    after = [[] for _ in layout.whole]
    for i, j, lag in edges(layout):
        after[i].append((j, lag))

    @cache
    def tail(i):
        return max((lag + float(layout.real[j, DURATION]) + tail(j) for j, lag in after[i]), default=0.0)

    np.testing.assert_allclose(layout.real[:, TAIL], [tail(i) for i in range(len(after))], atol=1e-9)
    through = layout.real[:, START] + layout.real[:, DURATION] + layout.real[:, TAIL]
    assert abs(through.max() - makespan) < 1e-9


@for_all(problems(), SEEDS)
def test_held_memory_and_what_is_above_the_cap(problem, seed):
    layout, _ = after_a_walk(problem, seed)
    for cap in CAPS:
        settled(layout, cap=cap + 1e-6)  # away from sums that meet it exactly, up to floating point
        held, over = memory_of(layout, cap=cap + 1e-6)
        np.testing.assert_allclose(layout.over, over, atol=1e-9)
        for rank, expected in enumerate(held):
            np.testing.assert_allclose(layout.held[rank, : len(expected)], expected, atol=1e-9)


def test_a_forward_above_the_cap_counts_its_excess_and_a_part_of_its_activation():
    problem = Problem(1, (Model("a", [0], 3, 1, 1, activation=2),))
    layout = laid_out(problem)
    layout.put(np.array([[0, 1, 2, 3, 4, 5]]))  # three forwards, then three backwards
    assert settled(layout, cap=3.0) == 6
    assert layout.held.tolist() == [[0, 2, 4, 6, 4, 2]]
    assert layout.over.tolist() == [(4 - 3) + (6 - 3)]
    settled(layout, cap=4.0)
    assert layout.over.tolist() == [6 - 4]  # what meets the cap exactly is within it


@for_all(problems(), SEEDS, examples=80)
def test_infinite_exactly_where_replay_refuses(problem, seed):
    layout = laid_out(problem)
    random = np.random.default_rng(seed)
    rows = layout.rows.copy()
    for rank, length in enumerate(layout.lengths):
        for place in random.integers(0, max(1, length - 1), size=3):
            if length > 1:
                rows[rank, [place, place + 1]] = rows[rank, [place + 1, place]]
    layout.put(rows)
    try:
        start, _ = replay_walk(layout.graph, [rows[r, :n].tolist() for r, n in enumerate(layout.lengths)])
    except OrderError:
        assert settled(layout) == np.inf
    else:
        ends = [t + d for t, d in zip(start, layout.graph.duration, strict=True)]
        assert settled(layout) == max(ends)


@for_all(problems(), SEEDS, examples=80)
def test_refreshed_after_a_change_equals_settled_anew(problem, seed):
    """A duration changes: all that stands right after the op is touched, and all right before it."""
    layout = laid_out(problem)
    settled(layout)
    random = np.random.default_rng(seed)
    dirty = np.zeros(len(layout.whole), np.uint8)
    for _ in range(4):
        i = int(random.integers(len(dirty)))
        layout.real[i, DURATION] = float(random.integers(0, 8))
        near = sorted({k for a, b, _ in edges(layout) if i in (a, b) for k in (a, b)} | {i})
        touched = np.array([*near, *near])  # named twice does no harm
        count = len(touched)
        refresh(*layout.arrays[:-1], layout.sequence, touched, count, dirty)
        assert not dirty.any()
        equal(layout, afresh(layout)[0])


@for_all(problems())
def test_single_ops_look_at_what_stands_right_beside_them(problem):
    layout = laid_out(problem)
    settled(layout)
    arrays = layout.arrays[:-2]
    for i in range(len(layout.whole)):
        ends = [layout.real[j, [START, DURATION]].sum() + lag for j, k, lag in edges(layout) if k == i]
        rests = [lag + layout.real[k, [DURATION, TAIL]].sum() for j, k, lag in edges(layout) if j == i]
        assert abs(earliest_start(*arrays, i) - max(ends, default=0.0)) < 1e-9
        assert abs(longest_after(*arrays, layout.lengths, i) - max(rests, default=0.0)) < 1e-9


def test_an_idle_rank_has_no_say_in_the_makespan():
    layout = laid_out(Problem(3, (Model("a", [2], 2, 1, 2),)))
    assert settled(layout) == makespan_of(layout.real, layout.rows, layout.lengths) == 6

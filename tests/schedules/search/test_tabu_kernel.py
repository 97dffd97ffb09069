"""The compiled tabu search: what it gives is what replay says, within the cap, the same for the same seed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st

from schedules.bounds import lower_bound
from schedules.builders import greedy, serial_1f1b
from schedules.check import check
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.layout import ACQUIRE, DURATION, EPS, RELEASE, START
from schedules.search.longest import makespan_of
from schedules.search.moves import is_legal
from schedules.search.tabu_kernel import (
    _PATIENCE,
    FORBIDDEN,
    _forbid_return,
    _is_forbidden,
    _longest_path,
    _propose_at_blocks,
    _propose_for_memory,
    tabu_steps,
    uniform,
)
from tests.schedules.published import published
from tests.schedules.search.laid_out import SEEDS, Mover, check_rows, edges, laid_out, settled, walk
from tests.schedules.strategies import for_all, problems

SHARES = st.sampled_from([1.0, 1.0, 1.2, 1.5, np.inf])  # of the largest activation of one micro-batch
TENURE, REACH = 10, 8


class Search:
    """A problem's arrays and what a search carries from run to run."""

    def __init__(self, problem, *, seed=1, apart=False, start=None):
        self.problem, self.apart = problem, apart
        self.layout = laid_out(problem, start or greedy(problem))
        self.best, self.until = self.layout.rows.copy(), np.zeros(FORBIDDEN, np.int64)
        self.random, self.counts = np.array([seed], np.uint64), np.zeros(2, np.int64)
        self.weight = np.array([1.0, 0.02, 100.0])

    def run(self, steps, *, cap=np.inf, goal=0.0, tenure=TENURE):
        state = (self.layout.sequence, self.layout.over, self.best, self.until, self.random, self.weight, self.counts)
        limits = (float(cap) * (1 + 1e-9), float(goal), steps, tenure, REACH, self.apart)
        return tabu_steps(*self.layout.arrays, *state, *limits)

    @property
    def result(self):
        """What replay says of the best rows."""
        return check(self.problem.with_cap(None), self.layout.order(self.best))


def least(problem):
    return max(problem.least_memory(rank) for rank in range(problem.ranks))


@for_all(problems(), SHARES, SEEDS, examples=100)
def test_best_is_a_valid_order_within_the_cap_and_its_makespan_is_the_result(problem, share, seed):
    search, cap = Search(problem, seed=seed + 1), least(problem) * share if share < np.inf else np.inf
    start = replay(problem, greedy(problem))
    found = search.run(120, cap=cap)
    result = search.result
    if found < np.inf:
        assert abs(result.makespan - found) < EPS
        assert result.max_peak_memory <= cap * (1 + 1e-9)
        assert found >= lower_bound(problem) - EPS
    if start.max_peak_memory <= cap:
        assert found <= start.makespan + EPS  # the start itself is such an order


@for_all(problems(), SHARES, SEEDS, examples=60)
def test_present_rows_are_whole_after_any_run(problem, share, seed):
    search = Search(problem, seed=seed + 1)
    for _ in range(2):
        search.run(60, cap=least(problem) * min(share, 10.0))
        check_rows(search.layout)
        before = search.layout.real.copy()
        settled(search.layout)
        np.testing.assert_allclose(search.layout.real, before, rtol=0, atol=1e-9)
    check(problem.with_cap(None), search.layout.order(search.layout.rows))


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_steps_are_counted_and_the_limit_is_kept(steps):
    search = Search(published(5))
    search.run(steps, cap=15.6)
    assert search.counts[0] == steps
    search.run(steps, cap=15.6)
    assert search.counts[0] == 2 * steps
    assert (search.counts[1] > 0) == (steps > 0)


def test_same_seed_same_rows_and_another_seed_others():
    rows = []
    for seed in (3, 3, 4):
        search = Search(published(5), seed=seed)
        search.run(1000, cap=15.6)
        rows.append(search.layout.rows)
    assert np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])


@for_all(problems(), SEEDS, examples=40)
def test_models_kept_apart_stay_in_their_sequence(problem, seed):
    start = serial_1f1b(problem)
    search = Search(problem, seed=seed + 1, apart=True, start=start)
    search.run(100, cap=least(problem))
    sequence = [[op.model for op in row] for row in search.layout.order(search.best).rows]
    for rows in (search.best, search.layout.rows):
        assert [[op.model for op in row] for row in search.layout.order(rows).rows] == sequence
    assert sequence == [sorted(row) for row in sequence]  # m0, m1, m2


def test_ends_at_once_where_the_goal_is_met():
    search = Search(published(5))
    makespan = replay(search.problem, greedy(search.problem)).makespan
    assert search.run(1000, goal=makespan) == makespan
    assert search.counts.tolist() == [0, 0]
    assert search.run(100_000, goal=225) == 225  # and once it is met on the way
    assert 0 < search.counts[0] < 100_000


def test_a_start_above_the_cap_counts_only_once_it_is_within():
    search = Search(published(5))
    assert replay(search.problem, greedy(search.problem)).max_peak_memory > 15.6
    assert search.run(0, cap=15.6) == np.inf
    found = search.run(20_000, cap=15.6)
    assert found == search.result.makespan <= 235
    assert search.result.max_peak_memory <= 15.6
    assert search.run(1000, cap=1.0) == np.inf  # less than one activation: no order is within it


@pytest.mark.parametrize(
    "problem",
    [
        Problem(1, (Model("a", [0], 1, 1),)),  # one op
        Problem(2, (Model("a", [1], 1, 2),)),  # and a rank without any
        Problem(1, (Model("a", [0], 5, 1, activation=1),)),  # one chain: no two ops may trade
        Problem(2, (Model("a", [0, 1], 1, 1, 2, 1),)),  # each op waits for the one before
    ],
)
def test_ends_where_no_move_is_legal(problem):
    search = Search(problem)
    start = replay(problem, greedy(problem)).makespan
    assert search.run(10**9, goal=start / 2) == start
    assert np.array_equal(search.best, search.layout.rows)


def test_goes_on_where_no_move_helps():
    """Nothing is on a block's inner end and memory is free, yet some pair may trade: it is drawn at random."""
    problem = Problem(2, (Model("a", [0], 1, 5), Model("b", [1], 1, 1), Model("c", [1], 1, 1)))
    search = Search(problem)
    assert search.run(50, goal=1.0) == 5
    assert search.counts[0] == 50


def test_weight_of_memory_rises_above_the_cap_and_falls_within_both_bounded():
    search = Search(published(5))
    search.run(4000, cap=1.0)
    assert search.weight.tolist() == [100.0, 0.02, 100.0]
    search.run(20_000)
    assert search.weight.tolist() == [0.02, 0.02, 100.0]
    search.run(_PATIENCE, cap=1.0)
    assert search.weight[0] == pytest.approx(0.022)


def test_forbidding_what_was_done_is_what_gets_it_past_dead_ends():
    """exp2 at serial 1F1B's peak: the bound in some hundred moves, not in ten thousand where nothing is forbidden."""
    with_it, without = Search(published(2)), Search(published(2))
    assert with_it.run(1500, cap=15.6, goal=225) == 225
    assert without.run(10_000, cap=15.6, goal=225, tenure=0) > 225


@for_all(problems(), SEEDS, examples=40)
def test_what_a_move_did_is_forbidden_to_undo_until_its_step(problem, seed):
    until = np.zeros(FORBIDDEN, np.int64)
    for step, (mover, (rank, source, target)) in enumerate(walk(problem, seed=seed, steps=6), start=1):
        rows, last = mover.layout.rows, 10 * step + 5
        until[:] = 0
        assert not _is_forbidden(rows, until, 10 * step, rank, source, target)
        _forbid_return(rows, until, last, rank, source, target)
        if mover.make(rank, source, target):
            assert _is_forbidden(rows, until, last - 1, rank, target, source)
            assert not _is_forbidden(rows, until, last, rank, target, source)


@for_all(problems(), SEEDS, examples=60)
def test_longest_path_leads_without_a_gap_from_the_start_to_the_makespan(problem, seed):
    layout = laid_out(problem)
    for mover, move in walk(problem, seed=seed):
        layout = mover.layout
        mover.make(*move)
    path, makespan = path_of(layout, seed=seed + 1)
    start, duration = layout.real[:, START], layout.real[:, DURATION]
    assert abs(start[path[0]]) < EPS
    assert abs(start[path[-1]] + duration[path[-1]] - makespan) < EPS
    tight = {(i, j) for i, j, lag in edges(layout) if abs(start[i] + duration[i] + lag - start[j]) < EPS}
    assert set(pairwise(path)) <= tight


def path_of(layout, *, seed):
    """A longest path, from its start."""
    settled(layout)
    path, makespan = np.zeros(len(layout.whole), np.int64), makespan_of(layout.real, layout.rows, layout.lengths)
    count = _longest_path(*layout.arrays[:-1], makespan, path, np.array([seed], np.uint64))
    return path[:count][::-1].tolist(), makespan


def test_longest_paths_differ_where_there_are_several():
    layout = laid_out(published(5))
    assert len({tuple(path_of(layout, seed=seed)[0]) for seed in range(1, 40)}) > 5


@for_all(problems(wide=False), SEEDS, examples=25)
def test_any_trade_of_neighbours_that_shortens_is_proposed(problem, seed):
    """Where it is at all possible by one trade, whichever longest path was drawn holds it at a block's end."""
    for mover, move in walk(problem, seed=seed, steps=6):
        layout = mover.layout
        path, makespan = path_of(layout, seed=seed + 1)
        moves = np.zeros((4000, 3), np.int64)
        reverse, arrays = np.array(path[::-1]), (layout.whole, layout.slots, layout.rows, layout.lengths)
        count = _propose_at_blocks(*arrays, reverse, len(path), REACH, moves)
        proposed = {(rank, min(a, b)) for rank, a, b in moves[:count].tolist() if abs(a - b) == 1}
        for rank, length in enumerate(layout.lengths):
            for place in range(length - 1):
                if shortens(layout, rank, place, makespan=makespan):
                    assert (rank, place) in proposed
        mover.make(*move)


def shortens(layout, rank, place, *, makespan):
    if not is_legal(layout.whole, layout.link, layout.slots, layout.rows, rank, place, place + 1, False):
        return False
    trial = laid_out(layout.graph.problem, layout.order(layout.rows))
    settled(trial)
    made = Mover(trial).make(rank, place, place + 1)
    return made and makespan_of(trial.real, trial.rows, trial.lengths) < makespan - EPS


@for_all(problems(), SEEDS, examples=60)
def test_moves_for_memory_give_back_earlier_or_take_later(problem, seed):
    """On a rank that is above the cap."""
    layout, cap = laid_out(problem, serial_1f1b(problem)), least(problem) / 2 + 1e-3
    settled(layout, cap=cap)
    moves, chains, random = np.zeros((200, 3), np.int64), np.zeros(8, np.int64), np.array([seed + 1], np.uint64)
    if layout.over.sum() <= EPS:
        return
    memory = (layout.real, layout.rows, layout.lengths, layout.held, layout.over, cap)
    for _ in range(20):
        count = _propose_for_memory(layout.whole, *memory, REACH, moves, 0, chains, random)
        for rank, source, target in moves[:count].tolist():
            assert layout.over[rank] > 0
            assert 0 <= source < layout.lengths[rank]
            assert 0 <= target < layout.lengths[rank]
            assert source != target
            assert layout.real[layout.rows[rank, source], RELEASE if target < source else ACQUIRE] > 0


def test_some_move_for_memory_is_proposed_that_lowers_it():
    layout = laid_out(published(5))
    settled(layout, cap=15.6)
    moves, chains, random = np.zeros((200, 3), np.int64), np.zeros(8, np.int64), np.array([1], np.uint64)
    memory, mover = (layout.real, layout.rows, layout.lengths, layout.held, layout.over, 15.6), Mover(layout, cap=15.6)
    count = _propose_for_memory(layout.whole, *memory, REACH, moves, 0, chains, random)
    assert min(mover.excess(*move) for move in moves[:count].tolist()) < 0


def test_proposals_stop_where_the_table_is_full():
    layout = laid_out(published(4))
    path, _ = path_of(layout, seed=1)
    moves = np.zeros((3, 3), np.int64)
    arrays = (layout.whole, layout.slots, layout.rows, layout.lengths)
    assert _propose_at_blocks(*arrays, np.array(path[::-1]), len(path), REACH, moves) == 3


def test_numbers_drawn_are_even_in_0_to_1():
    random = np.array([7], np.uint64)
    drawn = np.array([uniform(random) for _ in range(4000)])
    assert 0 <= drawn.min() < 0.01
    assert 0.99 < drawn.max() < 1
    assert np.histogram(drawn, bins=10)[0].min() > 330
    assert len(set(drawn)) == 4000

"""A move is made in full or not at all, and what is foretold of it comes true."""

import numpy as np
import pytest

from schedules.order import OrderError
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.layout import DURATION, EPS, SLOT, SLOT_END, START, TAIL
from schedules.search.longest import makespan_of
from schedules.search.moves import cannot_cycle, is_legal, longest_through, may_trade
from tests.schedules.search.laid_out import (
    SEEDS,
    Mover,
    afresh,
    check_rows,
    check_sequence,
    copy_of,
    equal,
    laid_out,
    settled,
    walk,
)
from tests.schedules.strategies import for_all, problems

CAP = 2.5 + 1e-6  # away from sums that meet it exactly, up to floating point


@for_all(problems(), SEEDS, examples=150)
def test_a_move_is_made_in_full_or_not_at_all(problem, seed):
    for mover, move in walk(problem, seed=seed, cap=CAP):
        layout, before = mover.layout, copy_of(mover.layout)
        made = mover.make(*move)
        check_rows(layout)
        check_sequence(layout)
        assert not mover.dirty.any()
        new, makespan = afresh(layout, cap=CAP)
        if made:
            assert not np.array_equal(layout.rows, before[3])
            assert makespan_of(layout.real, layout.rows, layout.lengths) == makespan
        else:
            for now, then in zip(copy_of(layout), before, strict=True):
                np.testing.assert_allclose(now, then, rtol=0, atol=1e-9)
        equal(layout, new)


@for_all(problems(), SEEDS, examples=80)
def test_a_move_is_refused_only_where_ops_would_wait_for_each_other(problem, seed):
    for mover, move in walk(problem, seed=seed):
        layout, rows = mover.layout, mover.layout.rows.copy()
        made = mover.make(*move)
        if not made and not shares_several(layout, rows, *move):
            rank, source, target = move
            row = rows[rank, : layout.lengths[rank]].tolist()
            row.insert(target, row.pop(source))
            rows[rank, : len(row)] = row
            with pytest.raises(OrderError, match="wait for each other"):
                replay(problem, layout.order(rows))


def shares_several(layout, rows, rank, source, target):
    """Whether two neighbours share further ranks, in which they would trade places too."""
    ranks = [set(layout.graph.ranks_of(rows[rank, place])) for place in (source, target)]
    return abs(source - target) == 1 and len(ranks[0] & ranks[1]) > 1


@for_all(problems(), SEEDS, examples=80)
def test_models_kept_apart_stay_in_their_sequence(problem, seed):
    for mover, move in walk(problem, seed=seed, apart=True):
        before = models(mover.layout)
        mover.make(*move)
        assert models(mover.layout) == before


def models(layout):
    return [[op.model for op in row] for row in layout.order(layout.rows).rows]


@for_all(problems(wide=False), SEEDS, examples=150)
def test_what_cannot_cycle_does_not(problem, seed):
    """Where every op takes time and occupies one rank."""
    for mover, move in walk(problem, seed=seed, least=0.5):
        safe = safe_by_times(mover, *move)
        made = mover.make(*move)
        assert made or not safe


def safe_by_times(mover, rank, source, target):
    layout = mover.layout
    return cannot_cycle(layout.whole, layout.real, layout.link, layout.lag, layout.rows, rank, source, target)


def test_moves_over_several_places_are_often_known_to_be_safe():
    problem = Problem(2, (Model("a", [0, 1], 4, 1, 2, activation=1), Model("b", [1, 0], 4, 1, 2, activation=1)))
    seen = [
        (safe_by_times(mover, *move), mover.make(*move))
        for seed in range(20)
        for mover, move in walk(problem, seed=seed)
        if abs(move[1] - move[2]) > 1
    ]
    safe = sum(known for known, _ in seen)
    possible = sum(made for _, made in seen)
    assert possible < len(seen)
    assert safe > 0.7 * possible


@for_all(problems(wide=False), SEEDS, examples=150)
def test_foretold_longest_path_through_the_moved_ops(problem, seed):
    """Never below what comes; for neighbours exactly that. Where ops occupy one rank."""
    for mover, move in walk(problem, seed=seed):
        rank, source, target = move
        layout, low, foretold = mover.layout, min(source, target), through(mover, *move)
        before = makespan_of(layout.real, layout.rows, layout.lengths)
        if not mover.make(*move):
            continue
        moved = layout.rows[rank, low : max(source, target) + 1]
        longest = layout.real[moved][:, [START, DURATION, TAIL]].sum(axis=1).max()
        assert foretold >= longest - EPS
        after = makespan_of(layout.real, layout.rows, layout.lengths)
        assert after <= max(before, foretold) + EPS
        if abs(source - target) == 1:
            assert abs(foretold - longest) < EPS


def through(mover, rank, source, target):
    layout, count = mover.layout, mover.take(rank, source, target)
    state = (layout.whole, layout.real, layout.link, layout.lag, layout.rows, layout.lengths)
    return longest_through(*state, mover.segment, mover.ends, count, rank, min(source, target))


@for_all(problems(), SEEDS, examples=150)
def test_foretold_change_of_excess_is_that_of_the_rank(problem, seed):
    for mover, move in walk(problem, seed=seed, cap=CAP):
        layout, before, foretold = mover.layout, mover.layout.over.copy(), mover.excess(*move)
        if mover.make(*move):
            new, _ = afresh(layout, cap=CAP)
            assert abs(new.over[move[0]] - before[move[0]] - foretold) < 1e-9


def test_a_move_takes_the_op_and_shifts_those_between():
    problem = Problem(1, (Model("a", [0], 4, 1, 2, activation=1),))
    layout = laid_out(problem)
    layout.put(np.array([[0, 4, 1, 5, 2, 6, 3, 7]]))  # F0 B0 F1 B1 ...
    assert settled(layout, cap=1.0) == 12
    mover = Mover(layout, cap=1.0)
    assert mover.take(0, 1, 4) == 4
    assert mover.segment[:4].tolist() == [1, 5, 2, 4]
    assert mover.take(0, 4, 2) == 3
    assert mover.segment[:3].tolist() == [2, 1, 5]
    assert mover.make(0, 1, 2)  # B0 after F1, which is then above the cap by one
    assert layout.rows.tolist() == [[0, 1, 4, 5, 2, 6, 3, 7]]
    assert layout.over.tolist() == [1]


def test_an_op_may_not_pass_its_chain_nor_what_it_waits_for_nor_another_model_where_they_keep_apart():
    problem = Problem(1, (Model("a", [0], 2, 1, 2, 1), Model("b", [0], 2, 1, 2)))
    layout = laid_out(problem)
    number = {str(op).partition("@")[0]: i for i, op in enumerate(layout.graph.ops)}

    def may(first, second, *, apart=False):
        i, j = number[first], number[second]
        return may_trade(layout.whole, layout.link, layout.slots, 0, i, j, True, apart)

    assert not may("a:F0", "a:F1")
    assert not may("a:F0", "a:B0")
    assert not may("a:B0", "a:W0")
    assert may("a:F1", "a:B0")
    assert may("a:W0", "a:B1")
    assert may("a:F0", "b:F0")
    assert may("a:F1", "a:B0", apart=True)
    assert not may("a:F0", "b:F0", apart=True)


def test_ops_that_share_several_ranks_trade_in_all_of_them_or_in_none():
    models = (Model("a", [[0, 1]], 1, 1, 1, activation=1), Model("b", [[1, 0]], 1, 1, 1, activation=1))
    problem = Problem(2, (*models, Model("c", [1], 1, 1, 1, activation=1)))
    layout = laid_out(problem)
    a, b, c = (layout.graph.number[op] for op in layout.graph.ops if op.kind == "F")
    ends = [i for i in range(len(layout.whole)) if i not in (a, b, c)]
    shared, alone = [i for i in ends if layout.whole[i, SLOT_END] - layout.whole[i, SLOT] == 2], ends[-1]
    layout.rows[:] = -1
    rows = layout.rows.copy()
    rows[0, :4], rows[1] = [a, b, *shared], [c, a, b, *shared, alone]
    layout.put(rows)
    assert settled(layout, cap=1.0) == 6
    assert layout.over.tolist() == [1, (2 - 1) + (3 - 1)]
    assert Mover(layout, cap=1.0).make(0, 1, 0)
    assert [layout.rows[0, :2].tolist(), layout.rows[1, :3].tolist()] == [[b, a], [c, b, a]]
    equal(layout, afresh(layout, cap=1.0)[0])
    rows[0, :4], rows[1] = [a, b, *shared], [a, c, b, *shared, alone]  # not neighbours on rank 1
    layout.put(rows)
    for source, target in ((0, 1), (1, 0)):
        assert not is_legal(layout.whole, layout.link, layout.slots, layout.rows, 0, source, target, False)
    assert is_legal(layout.whole, layout.link, layout.slots, layout.rows, 1, 1, 0, False)

"""The arrays say what the graph and the order say, and rows come back as the order that they are."""

import numpy as np
import pytest

from schedules.builders import greedy, serial_1f1b
from schedules.graph import build_graph, every_split
from schedules.order import Order, OrderError
from schedules.passes import split_backward
from schedules.problem import Model, Problem
from schedules.search.layout import (
    ACQUIRE,
    AFTER,
    AFTER_END,
    BEFORE,
    BEFORE_END,
    CHAIN,
    DURATION,
    MODEL,
    RELEASE,
    SLOT,
    SLOT_END,
    lay_out,
)
from tests.schedules.published import published
from tests.schedules.search.laid_out import check_rows, laid_out
from tests.schedules.strategies import for_all, problems


@for_all(problems())
def test_round_trip(problem):
    for builder in (greedy, serial_1f1b):
        order = split_backward(problem, builder(problem))
        layout = laid_out(problem, order)
        check_rows(layout)
        assert layout.order(layout.rows) == order


@for_all(problems())
def test_rows_put_in_place_of_others(problem):
    """As if they had been there from the start; the arrays stay the same ones, which a search holds on to."""
    layout, other = laid_out(problem, serial_1f1b(problem)), laid_out(problem)
    rows = layout.rows
    layout.put(other.rows)
    check_rows(layout)
    assert layout.rows is rows
    assert np.array_equal(rows, other.rows)
    assert np.array_equal(layout.slots, other.slots)
    other.rows[:] = 0
    check_rows(layout)  # a copy: the other's rows may change


@for_all(problems())
def test_numbers_and_links_are_the_graph_s(problem):
    layout = laid_out(problem)
    graph = layout.graph
    names = [model.name for model in problem.models]
    assert layout.real[:, DURATION].tolist() == graph.duration
    assert layout.real[:, ACQUIRE].tolist() == graph.acquire
    assert layout.real[:, RELEASE].tolist() == graph.release
    assert layout.whole[:, CHAIN].tolist() == graph.chain_of
    assert [names[k] for k in layout.whole[:, MODEL]] == [op.model for op in graph.ops]
    assert [links(layout, i, AFTER, AFTER_END) for i in range(len(graph.ops))] == graph.after
    assert [tuple(links(layout, i, BEFORE, BEFORE_END)) for i in range(len(graph.ops))] == graph.before


def links(layout, i, first, end):
    span = slice(layout.whole[i, first], layout.whole[i, end])
    return list(zip(layout.link[span].tolist(), layout.lag[span].tolist(), strict=True))


def test_a_stage_on_several_ranks_has_a_slot_for_each_and_an_idle_rank_an_empty_row():
    layout = laid_out(Problem(4, (Model("a", [[0, 2], 1], 2, 1, 2, activation=1),)))
    check_rows(layout)
    assert layout.lengths.tolist() == [4, 4, 4, 0]
    assert [int(end - begin) for begin, end in layout.whole[:, [SLOT, SLOT_END]]] == [2, 2, 1, 1, 2, 2, 1, 1]


def test_a_missing_op_is_refused():
    problem = published(5)
    rows = greedy(problem).rows
    with pytest.raises(OrderError, match=r"rank 1: .* is missing"):
        lay_out(build_graph(problem, split=every_split(problem)), Order((rows[0], rows[1][:-1], *rows[2:])))

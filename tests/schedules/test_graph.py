"""The integer view of a problem: who waits for whom, for how long, and who holds memory."""

from dataclasses import replace

import pytest

from schedules.builders import gpipe
from schedules.graph import build_graph, every_split, split_of
from schedules.order import Op
from schedules.problem import Model, Problem

SPLIT = Problem(2, (Model("a", [0, 1], 2, 1, 3, backward_weight=2, activation=5),), comm=0.5)


def waits(graph, op):
    return {(graph.ops[j], lag) for j, lag in graph.before[graph.number[op]]}


def test_ops_wait_for_neighbour_stages_with_the_message_time():
    graph = build_graph(SPLIT, split=every_split(SPLIT))
    assert waits(graph, Op("a", "F", 1, 1)) == {(Op("a", "F", 1, 0), 0.5)}
    assert waits(graph, Op("a", "B", 1, 1)) == {(Op("a", "F", 1, 1), 0.0)}
    assert waits(graph, Op("a", "B", 1, 0)) == {(Op("a", "F", 1, 0), 0.0), (Op("a", "B", 1, 1), 0.5)}
    assert waits(graph, Op("a", "W", 1, 0)) == {(Op("a", "B", 1, 0), 0.0)}


@pytest.mark.parametrize(("split", "releasing", "backward"), [(False, "B", 3), (True, "W", 1)])
def test_weight_part_takes_its_time_from_backward_and_the_memory_with_it(split, releasing, backward):
    graph = build_graph(SPLIT, split=every_split(SPLIT) if split else ())
    assert graph.duration[graph.number[Op("a", "B", 0, 0)]] == backward
    assert graph.acquire[graph.number[Op("a", "F", 0, 0)]] == 5
    assert {graph.ops[i].kind for i, amount in enumerate(graph.release) if amount} == {releasing}


def test_only_the_named_backwards_are_split():
    graph = build_graph(SPLIT, split={("a", 1, 1)})
    assert [op for op in graph.ops if op.kind == "W"] == [Op("a", "W", 1, 1)]
    assert graph.duration[graph.number[Op("a", "B", 1, 0)]] == 3


def test_messages_within_a_rank_or_into_a_part_of_its_ranks_take_no_time():
    problem = Problem(3, (Model("v", [0, 0, (0, 1), 1, 2], 1, 1),), comm=4)
    graph = build_graph(problem)
    lags = [graph.before[graph.number[Op("v", "F", 0, s)]][0][1] for s in (1, 2, 3, 4)]
    assert lags == [0, 4, 0, 4]


def test_forward_only_ops_give_their_memory_back_themselves():
    graph = build_graph(Problem(1, (Model("r", [0], 1, 1, activation=2),)))
    assert (graph.acquire, graph.release) == ([2.0], [2.0])


def test_split_of_an_order_without_weight_ops_is_empty():
    assert not split_of(gpipe(SPLIT))


def test_one_graph_serves_all_who_ask_for_the_same():
    problem = Problem(2, (Model("a", [0, 1], 2, 1, 2, backward_weight=1),))
    first = build_graph(problem, split=every_split(problem))
    assert build_graph(replace(problem), split=list(every_split(problem))) is first
    assert build_graph(problem) is not first
    assert build_graph(problem.with_cap(9)).problem.memory_cap == 9

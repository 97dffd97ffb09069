"""Heads and tails: longest paths, counted by hand and consistent with replay."""

from schedules.builders import greedy
from schedules.graph import build_graph, every_split, split_of
from schedules.order import Op
from schedules.paths import heads, tails
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.strategies import for_all, problems


def test_heads_and_tails_of_a_two_stage_pipeline():
    graph = build_graph(Problem(2, (Model("a", [0, 1], 2, 1, 2),), comm=0.5))
    head = dict(zip(graph.ops, heads(graph), strict=True))
    tail = dict(zip(graph.ops, tails(graph), strict=True))
    assert head[Op("a", "F", 1, 1)] == 2.5  # F0 and F1 of stage 0, then the message
    assert head[Op("a", "B", 0, 0)] == 5.0
    assert tail[Op("a", "B", 1, 0)] == 0
    assert tail[Op("a", "B", 0, 1)] == 4.5  # B1 of stage 1, the message, B1 of stage 0
    assert tail[Op("a", "F", 1, 0)] == 0.5 + 1 + 2 + 0.5 + 2


@for_all(problems())
def test_no_order_starts_an_op_before_its_head_or_leaves_less_than_its_tail(problem):
    order = greedy(problem)
    result = replay(problem, order)
    graph = build_graph(problem, split=every_split(problem) if split_of(order) else ())
    for op, head, tail in zip(graph.ops, heads(graph), tails(graph), strict=True):
        assert result.start[op] >= head - 1e-9
        assert result.makespan - result.end[op] >= tail - 1e-9

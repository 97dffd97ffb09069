"""List scheduling: priorities, windows, waking for messages, and memory as a hard limit."""

from schedules.builders.list_schedule import list_schedule
from schedules.graph import build_graph
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.strategies import for_all, problems


def text(problem, *, priority, window=None):
    graph = build_graph(problem)
    rows = list_schedule(graph, priority=[priority[op.kind] for op in graph.ops], window=window)
    return graph.to_order(rows).to_text(problem)


ONE = Problem(1, (Model("a", [0], 3, 1, 1, activation=1),))


def test_priority_decides():
    assert text(ONE, priority={"F": 0, "B": 1}) == "a:F0 a:F1 a:F2 a:B0 a:B1 a:B2\n"
    assert text(ONE, priority={"F": 1, "B": 0}) == "a:F0 a:B0 a:F1 a:B1 a:F2 a:B2\n"


def test_window_bounds_the_microbatches_in_flight():
    assert text(ONE, priority={"F": 0, "B": 1}, window={0: 2}) == "a:F0 a:F1 a:B0 a:F2 a:B1 a:B2\n"


def test_cap_bounds_the_memory():
    assert text(ONE.with_cap(2), priority={"F": 0, "B": 1}) == "a:F0 a:F1 a:B0 a:F2 a:B1 a:B2\n"


def test_rank_wakes_when_a_message_arrives_after_all_else_has_ended():
    problem = Problem(2, (Model("a", [0, 1], 1, 1, 1),), comm=3)
    assert text(problem, priority={"F": 0, "B": 0}) == "a:F0 a:B0\na:F0 a:B0\n"


@for_all(problems())
def test_rows_are_dispatched_in_the_sequence_of_their_replayed_starts(problem):
    """No rank is kept idle by anything but data, memory and the ranks of wide stages: replay finds the same times."""
    graph = build_graph(problem)
    order = graph.to_order(list_schedule(graph, priority=[float(i) for i in range(len(graph.ops))]))
    result = replay(problem, order)
    for row in order.rows:
        starts = [result.start[op] for op in row]
        assert starts == sorted(starts)

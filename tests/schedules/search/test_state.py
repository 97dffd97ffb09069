"""Orders survive the way into arrays and back."""

from schedules.builders import greedy
from schedules.draw.memory import memory_curves
from schedules.graph import build_graph, split_of
from schedules.search.state import order_of_rows, rows_of, tables_of
from tests.schedules.strategies import for_all, problems


@for_all(problems())
def test_round_trip(problem):
    order = greedy(problem)
    graph = build_graph(problem, split=split_of(order))
    assert order_of_rows(graph, rows_of(graph, order)) == order


@for_all(problems())
def test_places_and_held_memory_describe_the_rows(problem):
    order = greedy(problem)
    graph = build_graph(problem, split=split_of(order))
    tables, rows = tables_of(graph), rows_of(graph, order)
    for i in range(len(graph.ops)):
        for k in range(tables.slot[i], tables.slot[i + 1]):
            assert rows.ops[tables.ranks[k], rows.place[k]] == i
    for rank, curve in enumerate(memory_curves(problem, order)):
        held = rows.held[rank, : rows.length[rank]].tolist()
        assert {round(h, 6) for h in held} <= {round(h, 6) for _, h in curve}

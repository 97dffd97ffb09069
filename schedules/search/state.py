"""From graph and order to the arrays of the compiled annealing, and back."""

import numpy as np

from schedules.graph import Graph
from schedules.order import Order
from schedules.paths import tails
from schedules.replay import numbered
from schedules.search.kernel import Rows, Tables


def tables_of(graph: Graph) -> Tables:
    """The arrays that a search does not change."""
    ranks = [graph.ranks_of(i) for i in range(len(graph.ops))]
    return Tables(
        duration=np.array(graph.duration),
        tail=np.array(tails(graph)),
        acquire=np.array(graph.acquire),
        release=np.array(graph.release),
        chain=np.array(graph.chain_of),
        slot=_offsets(ranks),
        ranks=np.array([rank for own in ranks for rank in own]),
        waits=np.array([len(graph.before[i]) + len(own) for i, own in enumerate(ranks)]),
        after_from=_offsets(graph.after),
        after=np.array([j for links in graph.after for j, _ in links], dtype=np.int64),
        lag=np.array([lag for links in graph.after for _, lag in links], dtype=np.float64),
    )


def rows_of(graph: Graph, order: Order) -> Rows:
    """An order as arrays."""
    rows = numbered(graph, order)
    ops = np.full((len(rows), max(map(len, rows))), -1)
    for rank, row in enumerate(rows):
        ops[rank, : len(row)] = row
    count = len(graph.ops)
    result = Rows(
        ops=ops,
        length=np.array([len(row) for row in rows]),
        place=np.zeros(sum(map(len, rows)), dtype=np.int64),
        start=np.zeros(count),
        cause=np.full(count, -1),
        held=np.zeros(ops.shape),
    )
    settle(graph, result)
    return result


def settle(graph: Graph, rows: Rows) -> None:
    """Bring places and held memory in line with the ops of the rows."""
    slot = _offsets([graph.ranks_of(i) for i in range(len(graph.ops))])
    for rank, length in enumerate(rows.length):
        held = 0.0
        for position in range(length):
            i = rows.ops[rank, position]
            rows.place[slot[i] + graph.ranks_of(i).index(rank)] = position
            rows.held[rank, position] = held
            held = round(held + graph.acquire[i] - graph.release[i], 9)


def order_of_rows(graph: Graph, rows: Rows) -> Order:
    """The arrays as an order."""
    return graph.to_order([rows.ops[r, :length].tolist() for r, length in enumerate(rows.length)])


def _offsets(parts: "list[tuple[int, ...]] | list[list[tuple[int, float]]]") -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)

"""The arrays that the compiled search works on: few and wide, so that an op's numbers lie side by side.

    whole[i, CHAIN]     which (model, kind, stage)        real[i, DURATION]
    whole[i, MODEL]                                       real[i, ACQUIRE]   memory taken at the start
    whole[i, POSITION]  its place in a sequence in        real[i, RELEASE]   memory given back at the end
                        which none comes before what      real[i, START]     earliest start in the present rows
                        it waits for                      real[i, TAIL]      longest way from its end to the end of all
    links               link[whole[i, AFTER] : whole[i, AFTER_END]] wait for op i, by lag[...]; BEFORE likewise
    slots               slots[whole[i, SLOT] : whole[i, SLOT_END]]: (rank, place in its row), one for each rank of op i
    rows[r, p]          the op at place p of rank r; lengths[r] of them
    held[r, p]          the memory that rank r holds before that op

Plain arrays, because numba counts references each time that it takes an array out of a tuple.
"""

from dataclasses import dataclass

import numpy as np

from schedules.graph import Graph, Link
from schedules.order import Order
from schedules.replay import numbered

CHAIN, MODEL, POSITION, AFTER, AFTER_END, BEFORE, BEFORE_END, SLOT, SLOT_END = range(9)
DURATION, ACQUIRE, RELEASE, START, TAIL = range(5)
RANK, PLACE = range(2)
EPS = 1e-7  # times and memory closer than this are equal


@dataclass(frozen=True)
class Layout:
    """The arrays of one search; all are changed in place but for the graph."""

    graph: Graph
    whole: np.ndarray
    real: np.ndarray
    link: np.ndarray
    lag: np.ndarray
    slots: np.ndarray
    rows: np.ndarray
    lengths: np.ndarray
    held: np.ndarray
    sequence: np.ndarray
    over: np.ndarray  # per rank: memory above the cap, summed over its forwards

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What every compiled function takes first."""
        return self.whole, self.real, self.link, self.lag, self.slots, self.rows, self.lengths, self.held

    def put(self, rows: np.ndarray) -> None:
        """Replace the rows."""
        self.rows[:] = rows
        for rank, length in enumerate(self.lengths):
            for place, i in enumerate(rows[rank, :length]):
                own = self.slots[self.whole[i, SLOT] : self.whole[i, SLOT_END]]
                own[own[:, RANK] == rank, PLACE] = place

    def order(self, rows: np.ndarray) -> Order:
        """Rows of op numbers as an order."""
        return self.graph.to_order([rows[rank, :length].tolist() for rank, length in enumerate(self.lengths)])


def lay_out(graph: Graph, order: Order) -> Layout:
    """The arrays of a graph and an order of its ops."""
    count, ranks = len(graph.ops), graph.problem.ranks
    rows = numbered(graph, order)
    whole, real = np.zeros((count, 9), np.int64), np.zeros((count, 5))
    names = [model.name for model in graph.problem.models]
    whole[:, CHAIN], whole[:, MODEL] = graph.chain_of, [names.index(op.model) for op in graph.ops]
    real[:, DURATION], real[:, ACQUIRE], real[:, RELEASE] = graph.duration, graph.acquire, graph.release
    links = [list(own) for own in (*graph.after, *graph.before)]
    ends = _ends(links)
    whole[:, AFTER], whole[:, AFTER_END] = ends[:count], ends[1 : count + 1]
    whole[:, BEFORE], whole[:, BEFORE_END] = ends[count:-1], ends[count + 1 :]
    owned = [graph.ranks_of(i) for i in range(count)]
    slot_ends = _ends(owned)
    whole[:, SLOT], whole[:, SLOT_END] = slot_ends[:-1], slot_ends[1:]
    slots = np.array([(rank, 0) for own in owned for rank in own], np.int64)
    padded = np.full((ranks, max(map(len, rows))), -1)
    for rank, row in enumerate(rows):
        padded[rank, : len(row)] = row
    layout = Layout(
        graph=graph,
        whole=whole,
        real=real,
        link=np.array([j for own in links for j, _ in own], np.int64),
        lag=np.array([lag for own in links for _, lag in own], np.float64),
        slots=slots,
        rows=padded.copy(),
        lengths=np.array([len(row) for row in rows]),
        held=np.zeros(padded.shape),
        sequence=np.zeros(count, np.int64),
        over=np.zeros(ranks),
    )
    layout.put(padded)
    return layout


def _ends(parts: "list[list[Link]] | list[tuple[int, ...]]") -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)

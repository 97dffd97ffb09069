"""List scheduling: whenever a rank is idle, it starts the op of best priority among those that may start.

Memory is a hard limit and no dead end: a forward waits where the banker's test (banker.py) finds the state after it
unsafe. The empty state is safe because Problem refuses a cap below one micro-batch.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from schedules.builders.banker import Banker
from schedules.graph import Graph


def list_schedule(graph: Graph, *, priority: list[float], window: Mapping[int, int] | None = None) -> list[list[int]]:
    """Rows of op numbers. The lowest `priority` starts first; memory stays within the problem's cap.

    window: for a forward chain, how many of its micro-batches may be in flight (at least 1).
    """
    run = _Run(graph, priority, window or {})
    run.finish_all()
    return run.rows


@dataclass
class _Run:
    """The state of one list scheduling, moved on event by event."""

    graph: Graph
    priority: list[float]
    window: Mapping[int, int]

    def __post_init__(self) -> None:
        graph, problem = self.graph, self.graph.problem
        self.rows: list[list[int]] = [[] for _ in range(problem.ranks)]
        self.chains_on = [[c for c, chain in enumerate(graph.chains) if r in chain.ranks] for r in range(problem.ranks)]
        self.returning = _returning_chains(graph)
        self.started = [0] * len(graph.chains)
        self.done = [0] * len(graph.chains)
        self.waiting = [len(links) for links in graph.before]
        self.ready_at = [0.0] * len(graph.ops)
        self.idle = [True] * problem.ranks
        self.free = [problem.room] * problem.ranks
        self.banker = Banker(graph, self.started, self.done, self.free)
        self.refused: set[int] = set()  # ranks where the banker's test made a forward wait
        self.events: list[tuple[float, int]] = []  # (time, op that ends), or (time, -1 - rank to wake)

    def finish_all(self) -> None:
        self._dispatch(set(range(len(self.rows))), 0.0)
        while self.events:
            time = self.events[0][0]
            touched: set[int] = set()
            while self.events and self.events[0][0] <= time:
                touched |= self._happen(heapq.heappop(self.events)[1], time)
            self._dispatch(touched, time)
        assert sum(self.done) == len(self.graph.ops), "the banker's test lets every run finish"

    def _happen(self, event: int, time: float) -> set[int]:
        """Apply one event; give the ranks that may now start something."""
        if event < 0:
            return {-1 - event}
        touched = set(self.graph.ranks_of(event))
        self.done[self.graph.chain_of[event]] += 1
        for rank in touched:
            self.idle[rank] = True
            self.free[rank] += self.graph.release[event]
        if self.graph.release[event]:  # only memory given back can turn an unsafe start into a safe one
            touched |= self.refused
            self.refused.clear()
        for j, lag in self.graph.after[event]:
            self.waiting[j] -= 1
            self.ready_at[j] = max(self.ready_at[j], time + lag)
            if not self.waiting[j]:
                touched |= self._arrive(j, time)
        return touched

    def _arrive(self, op: int, time: float) -> set[int]:
        """All that an op waits for has been sent: its ranks look now, or when the last message is there."""
        ranks = self.graph.ranks_of(op)
        if self.ready_at[op] <= time:
            return set(ranks)
        for rank in ranks:
            heapq.heappush(self.events, (self.ready_at[op], -1 - rank))
        return set()

    def _dispatch(self, touched: set[int], time: float) -> None:
        for rank in sorted(touched):
            if self.idle[rank]:
                self._start_best(rank, time)

    def _start_best(self, rank: int, time: float) -> None:
        for _, op in sorted((self.priority[i], i) for i in self._candidates(rank, time)):
            if self._may_take_memory(op):
                self._start(op, time)
                return

    def _candidates(self, rank: int, time: float) -> list[int]:
        """The next op of each chain on the rank, where it has all it waits for and its ranks are idle."""
        found = []
        for c in self.chains_on[rank]:
            chain, m = self.graph.chains[c], self.started[c]
            if m == chain.count or (c in self.window and m - self.done[self.returning[c]] >= self.window[c]):
                continue
            op = chain.first + m
            arrived = not self.waiting[op] and self.ready_at[op] <= time
            if arrived and (len(chain.ranks) == 1 or all(self.idle[r] for r in chain.ranks)):
                found.append(op)
        return found

    def _start(self, op: int, time: float) -> None:
        self.started[self.graph.chain_of[op]] += 1
        for rank in self.graph.ranks_of(op):
            self.idle[rank] = False
            self.free[rank] -= self.graph.acquire[op]
            self.rows[rank].append(op)
        heapq.heappush(self.events, (time + self.graph.duration[op], op))

    def _may_take_memory(self, op: int) -> bool:
        taken, ranks = self.graph.acquire[op], self.graph.ranks_of(op)
        if self.graph.problem.memory_cap is None or self.graph.chain_of[op] not in self.returning:
            return True
        if any(self.free[rank] < taken for rank in ranks):
            return False
        if self.banker.allows(op):
            return True
        self.refused.update(ranks)
        return False


def _returning_chains(graph: Graph) -> dict[int, int]:
    """For each forward chain, the chain that gives its memory back."""
    number = {(c.model, c.kind, c.stage): i for i, c in enumerate(graph.chains)}
    returning = {}
    for i, c in enumerate(graph.chains):
        if c.kind == "F":
            backward = number.get((c.model, "B", c.stage), i)
            returning[i] = number.get((c.model, "W", c.stage), backward)
    return returning

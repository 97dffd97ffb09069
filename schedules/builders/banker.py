"""The banker's test: after an op takes memory, can the micro-batches in flight still be finished one by one?

Finishing a micro-batch needs its remaining forwards to fit and then gives back all it holds on every rank. A state
from which some sequence finishes them all is safe, and the first op of that sequence leads to a safe state again. So
a scheduler that only enters safe states never dead-ends, whatever else guides it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from schedules.graph import Graph

Item = tuple[int, int]  # (index of the training model, micro-batch)


@dataclass(frozen=True)
class _Stage:
    """One stage of a training model: its chains and what a micro-batch holds there."""

    forward: int
    releasing: int
    ranks: tuple[int, ...]
    held: tuple[float, ...]


@dataclass
class Banker:
    """Keeps a sequence that finishes all micro-batches in flight, and looks for another where it no longer holds.

    started, done: ops begun and ended per chain; free: memory left per rank. All three belong to the scheduler.
    """

    graph: Graph
    started: list[int]
    done: list[int]
    free: list[float]
    sequence: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem = self.graph.problem
        self.reserve = [problem.least_memory(rank) for rank in range(problem.ranks)]
        self.models = [stages for m in problem.models if (stages := _stages(self.graph, m.name))]
        self.model_of = {stage.forward: k for k, stages in enumerate(self.models) for stage in stages}
        self.on_rank = [
            [[stage for stage in stages if rank in stage.ranks] for stages in self.models]
            for rank in range(problem.ranks)
        ]

    def allows(self, op: int) -> bool:
        """Whether the state with the forward `op` begun is safe; if so, its sequence is kept."""
        chain = self.graph.chain_of[op]
        if chain not in self.model_of:
            return True  # forward-only: it gives its memory back whatever the others do
        item = (self.model_of[chain], op - self.graph.chains[chain].first)
        ranks, taken = self.graph.ranks_of(op), self.graph.acquire[op]
        sequence = self.sequence
        while sequence and self._finished(sequence[0]):
            sequence.pop(0)
        if chain == self.models[item[0]][0].forward:  # the first stage: a micro-batch not in flight before
            sequence = [*sequence, item]
        self.started[chain] += 1
        if not all(self._holds(sequence, rank, self.free[rank] - taken) for rank in ranks):
            sequence = self._search(
                [have - taken if r in ranks else have for r, have in enumerate(self.free)], sequence
            )
        self.started[chain] -= 1
        if sequence:
            self.sequence = sequence
        return bool(sequence)

    def _finished(self, item: Item) -> bool:
        return all(self.done[stage.releasing] > item[1] for stage in self.models[item[0]])

    def _holds(self, sequence: Sequence[Item], rank: int, free: float) -> bool:
        """Whether the sequence still works as far as one rank is concerned."""
        for k, m in sequence:
            if free >= self.reserve[rank]:
                return True
            need, back = self._needs(self.on_rank[rank][k], m)
            if need > free:
                return False
            free += back
        return True

    def _needs(self, stages: Sequence[_Stage], m: int) -> tuple[float, float]:
        """What finishing a micro-batch takes on these stages, and what it gives back of what is held now."""
        need = back = 0.0
        for stage in stages:
            if self.started[stage.forward] <= m:
                need += stage.held[m]
            elif self.done[stage.releasing] <= m:
                back += stage.held[m]
        return need, back

    def _search(self, free: list[float], items: Sequence[Item]) -> list[Item]:
        """Finish whatever can be finished, oldest first within a model. Empty where some cannot be."""
        queues = [sorted(m for k, m in items if k == index) for index in range(len(self.models))]
        found: list[Item] = []
        moved = True
        while moved:
            moved = False
            for k, queue in enumerate(queues):
                while queue and self._finish(k, queue[0], free):
                    found.append((k, queue.pop(0)))
                    moved = True
        return found if not any(queues) else []

    def _finish(self, k: int, m: int, free: list[float]) -> bool:
        changes = [(rank, *self._needs(stages[k], m)) for rank, stages in enumerate(self.on_rank) if stages[k]]
        if any(free[rank] < need for rank, need, _ in changes):
            return False
        for rank, _, back in changes:
            free[rank] += back
        return True


def _stages(graph: Graph, name: str) -> list[_Stage]:
    """The stages of a training model; none for a forward-only one, which holds nothing between ops."""
    model = graph.problem.model(name)
    if not model.trains:
        return []
    chain = {(c.kind, c.stage): i for i, c in enumerate(graph.chains) if c.model == name}
    return [
        _Stage(
            forward=chain["F", s],
            releasing=chain.get(("W", s), chain["B", s]),
            ranks=model.ranks_of(s),
            held=tuple(model.activation_of(s, m) for m in range(model.microbatches)),
        )
        for s in range(model.stages)
    ]

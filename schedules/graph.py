"""The work of a problem as integers: every op has a number, and plain lists answer for it.

The numbers make replay, the builders and the searches fast; the rest of the package speaks of Op. Ops of one chain
(model, kind, stage) are numbered in a row, so micro-batch m of a chain that begins at b is op b + m.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache

from schedules.order import Op, Order
from schedules.problem import Kind, Model, Problem

Split = Collection[tuple[str, int, int]]  # (model, stage, microbatch) of each backward that is split
Link = tuple[int, float]  # (op number, lag in time)
_KEPT = 6  # graphs: a problem's with and without its cap, whole and split


@dataclass(frozen=True)
class Chain:
    """The ops of one (model, kind, stage), which run in increasing micro-batch order."""

    model: str
    kind: Kind
    stage: int
    first: int
    count: int
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """Ops by number: duration, ranks, what each waits for, and what it does to its ranks' memory.

    acquire: memory taken at the op's start. release: memory given back at its end.
    """

    problem: Problem
    chains: tuple[Chain, ...]
    ops: list[Op]
    duration: list[float]
    chain_of: list[int]
    before: list[tuple[Link, ...]]
    acquire: list[float]
    release: list[float]

    @cached_property
    def number(self) -> dict[Op, int]:
        return {op: i for i, op in enumerate(self.ops)}

    @cached_property
    def after(self) -> list[list[Link]]:
        """The ops that wait for each op, with the lag."""
        after: list[list[Link]] = [[] for _ in self.ops]
        for i, links in enumerate(self.before):
            for j, lag in links:
                after[j].append((i, lag))
        return after

    def ranks_of(self, i: int) -> tuple[int, ...]:
        return self.chains[self.chain_of[i]].ranks

    def to_order(self, rows: list[list[int]]) -> Order:
        """Rows of op numbers as an order."""
        return Order(tuple(tuple(self.ops[i] for i in row) for row in rows))


def every_split(problem: Problem) -> Split:
    """All backwards that may be split."""
    return {
        (model.name, s, m)
        for model in problem.models
        if model.backward_weight is not None
        for s in range(model.stages)
        for m in range(model.microbatches)
    }


def split_of(order: Order) -> Split:
    """The backwards that an order splits."""
    return {(op.model, op.stage, op.microbatch) for row in order.rows for op in row if op.kind == "W"}


def build_graph(problem: Problem, *, split: Split = ()) -> Graph:
    """Number the ops of a problem; `split` names the backwards whose weight part is an op of its own.

    The last few graphs are kept, since one command asks for the same one many times; they are not to be changed.
    """
    return _build(problem, frozenset(split))


@lru_cache(maxsize=_KEPT)
def _build(problem: Problem, split: frozenset[tuple[str, int, int]]) -> Graph:
    chains = _chains(problem, split)
    first = {(c.model, c.kind, c.stage): c.first for c in chains}
    graph = Graph(problem, chains, [], [], [], [], [], [])
    for number, chain in enumerate(chains):
        model = problem.model(chain.model)
        links = _links(problem, model, chain, first)
        for m in _microbatches(model, chain.kind, chain.stage, split):
            parted = (chain.model, chain.stage, m) in split
            held = model.activation_of(chain.stage, m)
            graph.ops.append(Op(chain.model, chain.kind, m, chain.stage))
            graph.duration.append(model.duration(chain.kind, chain.stage, m, split=parted))
            graph.chain_of.append(number)
            graph.before.append(tuple((start + m, lag) for start, lag in links))
            graph.acquire.append(held if chain.kind == "F" else 0.0)
            graph.release.append(held if chain.kind == _last_kind(model, parted=parted) else 0.0)
    return graph


def _chains(problem: Problem, split: frozenset[tuple[str, int, int]]) -> tuple[Chain, ...]:
    chains: list[Chain] = []
    first = 0
    for model in problem.models:
        kinds: tuple[Kind, ...] = ("F", "B", "W") if model.trains else ("F",)
        for kind in kinds:
            for s in range(model.stages):
                count = len(_microbatches(model, kind, s, split))
                if count:
                    chains.append(Chain(model.name, kind, s, first, count, model.ranks_of(s)))
                    first += count
    return tuple(chains)


def _microbatches(model: Model, kind: Kind, stage: int, split: frozenset[tuple[str, int, int]]) -> list[int]:
    if kind != "W":
        return list(range(model.microbatches))
    return [m for m in range(model.microbatches) if (model.name, stage, m) in split]


def _links(problem: Problem, model: Model, chain: Chain, first: dict[tuple[str, Kind, int], int]) -> list[Link]:
    """The chains whose op of the same micro-batch an op waits for, by the first op of each, and the lag."""
    name, s = model.name, chain.stage
    if chain.kind == "F":
        return [(first[name, "F", s - 1], lag(problem, model, s - 1, s))] if s > 0 else []
    if chain.kind == "W":
        return [(first[name, "B", s], 0.0)]
    own = [(first[name, "F", s], 0.0)]
    return own if s == model.stages - 1 else [*own, (first[name, "B", s + 1], lag(problem, model, s + 1, s))]


def lag(problem: Problem, model: Model, source: int, target: int) -> float:
    """Time from the end of an op at one stage to the use of its message at another."""
    return 0.0 if set(model.ranks_of(target)) <= set(model.ranks_of(source)) else problem.comm


def _last_kind(model: Model, *, parted: bool) -> Kind:
    """The kind that ends a micro-batch's stay in memory."""
    if not model.trains:
        return "F"
    return "W" if parted else "B"

"""Which ranks run one program together when the models of a pass lie on them in different ways. No torch.

    actor tp=1 pp=4             rank   0     1     2     3        one group of four columns
                              stage    0     1     2     3
    critic tp=1 pp=2 dp=2     stage    1     1     0     0        reversed
                            replica    0     1     0     1        two copies, critic0 and critic1

group    the smallest sets of ranks that hold each replica of each model whole or not at all: messages stay inside, so
         that one order serves a group, and the same order all groups
column   ranks of a group with the same stages of the same replicas of all models: they run the same list
copy     a replica of a model in a group; where there are several they are models of their own to a schedule

A stage whose tensor-parallel ranks lie on several columns is on all of them at once:

    actor tp=2 pp=2             rank   0     1  |  2     3
                              stage    0 --- 0  |  1 --- 1        on columns 0 and 1, and on 2 and 3
    critic tp=1 pp=2 dp=2     stage    1     1     0     0

With equal layouts a group is one replica of every model, and its columns are their pipeline columns.

Models may lie on different ranks, some of which hold but one of them. Groups that are not alike then are joined,
equally many of each kind, so that the joined ones are: an actor on ranks 0 to 3 and a critic on 4 to 7, four replicas
each, are four groups of one replica of either, which run side by side. At worst one group is left, of all ranks.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusedrl.parallel.layout import Layout

NO_COLUMN = -1
Seats = tuple[int, ...]
"""The world ranks of one stage of one replica; the i-th sends to the i-th of the next stage."""


@dataclass(frozen=True)
class Spread:
    """How a model lies on the world. replicas: its seats by replica and pipeline column; placement: column by stage."""

    replicas: tuple[tuple[Seats, ...], ...]
    placement: tuple[int, ...]

    @staticmethod
    def of(layout: Layout, placement: Sequence[int], *, ranks: Sequence[int] | None = None) -> "Spread":
        """ranks: of the job, where the layout's ranks lie; by default the first ones."""
        on = range(layout.world) if ranks is None else ranks
        seats = layout.world // (layout.pp * layout.dp)  # innermost in the rank map; pipeline columns lie outermost

        def stage(dp_i: int, pp_i: int) -> Seats:
            first = seats * (dp_i + layout.dp * pp_i)
            return tuple(on[first : first + seats])

        replicas = tuple(tuple(stage(dp_i, pp_i) for pp_i in range(layout.pp)) for dp_i in range(layout.dp))
        return Spread(replicas, tuple(placement))

    @property
    def ranks(self) -> set[int]:
        return {rank for replica in self.replicas for seats in replica for rank in seats}


@dataclass(frozen=True)
class Copy:
    """A replica of a model in a group. name: the model's, numbered where a group has several.

    placement: for each stage its column, or the columns that it lies on at once.
    """

    name: str
    model: str
    placement: tuple[int | tuple[int, ...], ...]


@dataclass(frozen=True)
class Fusion:
    """The program that all groups run. columns: of a group. By world rank: its column, and the copy of each model that
    it works for; NO_COLUMN and none where it holds no model. Ranks beyond the last that holds one are left out."""

    columns: int
    copies: tuple[Copy, ...]
    column_of: tuple[int, ...]
    copy_of: tuple[Mapping[str, str], ...]

    def takes_part(self, rank: int) -> bool:
        """Whether a rank runs the program."""
        return rank < len(self.copy_of) and bool(self.copy_of[rank])

    def copies_of(self, model: str) -> list[Copy]:
        return [copy for copy in self.copies if copy.model == model]

    def is_shared(self, model: str) -> bool:
        """Whether replicas of the model run one program, at different places of it."""
        return len(self.copies_of(model)) > 1


def fuse(models: Mapping[str, Spread]) -> Fusion:
    """How the models of a pass lie together."""
    groups = _alike(models, _groups(models))
    columns = _columns(models, groups)
    copies = _copies(models, groups[0], columns)
    assert all(_copies(models, group, columns) == copies for group in groups)
    world = 1 + max(columns)
    copy_of: list[dict[str, str]] = [{} for _ in range(world)]
    for group in groups:
        for name, spread in models.items():
            held = _held(spread, group)
            for number, replica in enumerate(held):
                for rank in (rank for seats in replica for rank in seats):
                    copy_of[rank][name] = _name(name, number, of=len(held))
    column_of = tuple(columns.get(rank, NO_COLUMN) for rank in range(world))
    return Fusion(1 + max(column_of), copies, column_of, tuple(copy_of))


def _groups(models: Mapping[str, Spread]) -> list[list[int]]:
    """The ranks of each group in increasing order, by their first."""
    group = {rank: {rank} for spread in models.values() for rank in spread.ranks}
    for spread in models.values():
        for replica in spread.replicas:
            members = set().union(*(group[rank] for seats in replica for rank in seats))
            group |= dict.fromkeys(members, members)
    return [sorted(members) for rank, members in sorted(group.items()) if rank == min(members)]


def _alike(models: Mapping[str, Spread], groups: list[list[int]]) -> list[list[int]]:
    """Groups that hold the same copies, made of these by joining some of each kind."""
    columns = _columns(models, groups)
    kinds: dict[tuple[Copy, ...], list[list[int]]] = defaultdict(list)
    for group in groups:
        kinds[_copies(models, group, columns)].append(group)
    made = math.gcd(*map(len, kinds.values()))
    joined: list[list[int]] = [[] for _ in range(made)]
    for some in kinds.values():
        each = len(some) // made
        for number, group in enumerate(some):
            joined[number // each] += group
    return joined


def _columns(models: Mapping[str, Spread], groups: Iterable[list[int]]) -> dict[int, int]:
    """By rank, its column in its group: ranks of like work share one, and columns count by their first rank. Where a
    column would not send to one column, each rank is a column."""
    shared = _shared_columns(models, groups)
    return shared if _even(models, shared) else {rank: place for group in groups for place, rank in enumerate(group)}


def _shared_columns(models: Mapping[str, Spread], groups: Iterable[list[int]]) -> dict[int, int]:
    work: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for name, spread in models.items():
        for number, replica in enumerate(spread.replicas):
            for column, seats in enumerate(replica):
                for rank in seats:
                    work[rank].append((name, number, column))
    found = {}
    for group in groups:
        kinds: dict[tuple[tuple[str, int, int], ...], int] = {}
        for rank in group:
            found[rank] = kinds.setdefault(tuple(work[rank]), len(kinds))
    return found


def _even(models: Mapping[str, Spread], columns: Mapping[int, int]) -> bool:
    """Whether the seats of all stages of a replica share columns in one way, so that a column sends to a column."""
    ways = ({_way([columns[rank] for rank in seats]) for seats in r} for s in models.values() for r in s.replicas)
    return all(len(found) == 1 for found in ways)


def _way(columns: Sequence[int]) -> tuple[int, ...]:
    return tuple(columns.index(column) for column in columns)


def _copies(models: Mapping[str, Spread], group: list[int], columns: Mapping[int, int]) -> tuple[Copy, ...]:
    return tuple(
        Copy(_name(name, number, of=len(held)), name, tuple(_on(replica[p], columns) for p in spread.placement))
        for name, spread in models.items()
        for held in [_held(spread, group)]
        for number, replica in enumerate(held)
    )


def _held(spread: Spread, group: list[int]) -> list[tuple[Seats, ...]]:
    return [replica for replica in spread.replicas if replica[0][0] in group]


def _on(seats: Seats, columns: Mapping[int, int]) -> int | tuple[int, ...]:
    found = tuple(dict.fromkeys(columns[rank] for rank in seats))
    return found[0] if len(found) == 1 else found


def _name(model: str, number: int, *, of: int) -> str:
    return model if of == 1 else f"{model}{number}"

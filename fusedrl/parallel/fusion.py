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
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusedrl.parallel.layout import Layout

Seats = tuple[int, ...]
"""The world ranks of one stage of one replica; the i-th sends to the i-th of the next stage."""


@dataclass(frozen=True)
class Spread:
    """How a model lies on the world. replicas: its seats by replica and pipeline column; placement: column by stage."""

    replicas: tuple[tuple[Seats, ...], ...]
    placement: tuple[int, ...]

    @staticmethod
    def of(layout: Layout, placement: Sequence[int]) -> "Spread":
        seats = layout.world // (layout.pp * layout.dp)  # innermost in the rank map; pipeline columns lie outermost
        replicas = tuple(
            tuple(tuple(seat + seats * (dp_i + layout.dp * pp_i) for seat in range(seats)) for pp_i in range(layout.pp))
            for dp_i in range(layout.dp)
        )
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
    it works for."""

    columns: int
    copies: tuple[Copy, ...]
    column_of: tuple[int, ...]
    copy_of: tuple[Mapping[str, str], ...]

    def copies_of(self, model: str) -> list[Copy]:
        return [copy for copy in self.copies if copy.model == model]

    def is_shared(self, model: str) -> bool:
        """Whether replicas of the model run one program, at different places of it."""
        return len(self.copies_of(model)) > 1


def fuse(models: Mapping[str, Spread]) -> Fusion:
    """Raises ValueError where models are not on the same ranks, or where no one program can serve all groups."""
    world = _world(models)
    groups = _groups(models, world=world)
    columns = _columns(models, groups, world=world)
    columns = columns if _even(models, columns) else [group.index(rank) for rank, group in _by_rank(groups, world)]
    parts = [_copies(models, group, columns) for group in groups]
    _check_alike(parts, groups)
    copy_of: list[dict[str, str]] = [{} for _ in range(world)]
    for group in groups:
        for name, spread in models.items():
            held = _held(spread, group)
            for number, replica in enumerate(held):
                for rank in (rank for seats in replica for rank in seats):
                    copy_of[rank][name] = _name(name, number, of=len(held))
    return Fusion(1 + max(columns), parts[0], tuple(columns), tuple(copy_of))


def _world(models: Mapping[str, Spread]) -> int:
    ranks = {name: spread.ranks for name, spread in models.items()}
    first = next(iter(ranks.values()))
    if any(each != first for each in ranks.values()):
        told = ", ".join(f"{name} on {len(each)}" for name, each in ranks.items())
        raise ValueError(f"models of one pass lie on the same ranks; given {told}")
    return len(first)


def _groups(models: Mapping[str, Spread], *, world: int) -> list[list[int]]:
    """The ranks of each group in increasing order, by their first."""
    group = {rank: {rank} for rank in range(world)}
    for spread in models.values():
        for replica in spread.replicas:
            members = set().union(*(group[rank] for seats in replica for rank in seats))
            group |= dict.fromkeys(members, members)
    return [sorted(members) for rank, members in sorted(group.items()) if rank == min(members)]


def _by_rank(groups: Iterable[list[int]], world: int) -> list[tuple[int, list[int]]]:
    of = {rank: group for group in groups for rank in group}
    return [(rank, of[rank]) for rank in range(world)]


def _columns(models: Mapping[str, Spread], groups: Iterable[list[int]], *, world: int) -> list[int]:
    """By world rank, its column in its group: ranks of like work share one, and columns count by their first rank."""
    work: list[list[tuple[int, int]]] = [[] for _ in range(world)]
    for spread in models.values():
        for number, replica in enumerate(spread.replicas):
            for column, seats in enumerate(replica):
                for rank in seats:
                    work[rank].append((number, column))
    found = [0] * world
    for group in groups:
        kinds: dict[tuple[tuple[int, int], ...], int] = {}
        for rank in group:
            found[rank] = kinds.setdefault(tuple(work[rank]), len(kinds))
    return found


def _even(models: Mapping[str, Spread], columns: Sequence[int]) -> bool:
    """Whether the seats of all stages of a replica share columns in one way, so that a column sends to a column."""
    ways = ({_way([columns[rank] for rank in seats]) for seats in r} for s in models.values() for r in s.replicas)
    return all(len(found) == 1 for found in ways)


def _way(columns: Sequence[int]) -> tuple[int, ...]:
    return tuple(columns.index(column) for column in columns)


def _copies(models: Mapping[str, Spread], group: list[int], columns: Sequence[int]) -> tuple[Copy, ...]:
    return tuple(
        Copy(_name(name, number, of=len(held)), name, tuple(_on(replica[p], columns) for p in spread.placement))
        for name, spread in models.items()
        for held in [_held(spread, group)]
        for number, replica in enumerate(held)
    )


def _held(spread: Spread, group: list[int]) -> list[tuple[Seats, ...]]:
    return [replica for replica in spread.replicas if replica[0][0] in group]


def _on(seats: Seats, columns: Sequence[int]) -> int | tuple[int, ...]:
    found = tuple(dict.fromkeys(columns[rank] for rank in seats))
    return found[0] if len(found) == 1 else found


def _name(model: str, number: int, *, of: int) -> str:
    return model if of == 1 else f"{model}{number}"


def _check_alike(parts: Sequence[tuple[Copy, ...]], groups: Sequence[list[int]]) -> None:
    for part, group in zip(parts, groups, strict=True):
        if part != parts[0]:
            held = "; ".join(
                f"ranks {each} hold {', '.join(copy.name for copy in some)}"
                for each, some in ((groups[0], parts[0]), (group, part))
            )
            raise ValueError(
                f"one order cannot serve all ranks, their models meet in different ways ({held}); choose tensor and "
                "pipeline sizes that divide each other"
            )

"""Who runs a trainer together: a team is a set of the job's ranks with a process group of its own.

    whole()            all ranks of the job; what `current()` is unless a process has said otherwise
    make_team(ranks)   some of them; a collective of the whole job, called on all ranks in one sequence
    with on(team):     in this process "all ranks" means the team's, until the end of the block

    train, generate = make_team([0, 1, 2]), make_team([3])       # on all four ranks
    with on(train if train.holds() else generate):
        ...                                                      # both go on at the same time, neither waits
    ...                                                          # here all four meet again

By the current team go: collectives without a group (fusedrl.parallel.comm, sums of results, agreement on orders,
reports, stops, saved states), who speaks and writes (`leads`), the number of ranks that a layout without `ranks` fills,
and between whom a hand-over moves weights: one from one team to another is made and run while whole() is current, by
all ranks, with None for what a rank does not hold.

By the whole job go, whatever team is current: making process groups, and so teams, models, executors and engines on
several stages. Every rank calls these in one sequence, also for models that it holds no part of. (torch can make a
group by its members alone, but names it after how many groups each of them has, which differs between ranks.)
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist

_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True, eq=False)
class Team:
    """ranks: of the job, increasing. group: None stands for the job's own, and for one that this rank is not in."""

    ranks: tuple[int, ...]
    group: dist.ProcessGroup | None = None

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def first(self) -> int:
        """The rank of the job that speaks and writes for the team."""
        return self.ranks[0]

    def holds(self) -> bool:
        """Whether this rank is in the team."""
        return dist.get_rank() in self.ranks

    def place(self) -> int:
        """This rank's number in the team."""
        return self.ranks.index(dist.get_rank())


_current: Team | None = None  # of this process, all threads of it


def whole() -> Team:
    """All ranks of the job."""
    return Team(tuple(range(dist.get_world_size())))


def current() -> Team:
    """The ranks that this process works with now."""
    return whole() if _current is None else _current


def leads() -> bool:
    """Whether this rank speaks and writes for the current team."""
    return dist.get_rank() == current().first


def make_team(ranks: Iterable[int], *, timeout: timedelta = _TIMEOUT) -> Team:
    """A team of these ranks of the job. A collective of the whole job."""
    chosen, everyone = tuple(sorted(set(ranks))), whole()
    if not chosen or not set(chosen) <= set(everyone.ranks):
        raise ValueError(f"a team of ranks {list(chosen)}: choose some of 0 to {everyone.size - 1}")
    if chosen == everyone.ranks:
        return everyone
    group = dist.new_group(list(chosen), timeout=timeout)
    return Team(chosen, group if dist.get_rank() in chosen else None)


@contextmanager
def on(team: Team) -> Iterator[Team]:
    """Within, this process works with `team`, which it is in."""
    global _current
    if not team.holds():
        raise ValueError(f"rank {dist.get_rank()} cannot work on a team of ranks {list(team.ranks)}: it is not in it")
    before, _current = _current, None if team.group is None else team
    try:
        yield team
    finally:
        _current = before

"""Seconds of messages and collectives by size, on the ranks of the job: every rank does the same at the same time.

message        each rank sends to the next one of its node, or to its counterpart on the next node
collective     the ranks are cut into groups of 2, 4, ... neighbours, and all groups run at once
"""

import os
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist

from fusedrl.plan.costs import Collective
from fusedrl.plan.profile_file import Points, Table, make_table
from fusedrl.plan.timing import Mark, laps, medians, over_ranks

# the newer names where this torch has them; it warns of the others
_GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
_SCATTER = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
KINDS: tuple[Collective, ...] = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")


def link_tables(sizes: Sequence[int], *, device: torch.device, repeats: int) -> Iterator[Table]:
    """sizes: bytes. A collective of the world."""
    world, local = dist.get_world_size(), int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
    for across, peers in ((False, _neighbours(local)), (True, _counterparts(local, world))):
        if peers is not None:
            points: Points = {(float(n),): [_message(n, peers, device=device, repeats=repeats)] for n in sizes}
            yield make_table("message", points, across_nodes=across)
    for ranks in _group_sizes(world):
        group = _own_group(ranks, world)
        for kind in KINDS:
            points = {(float(n),): [_collective(kind, n, group, device=device, repeats=repeats)] for n in sizes}
            yield make_table("collective", points, kind=kind, ranks=ranks, nodes=-(-ranks // local))
    if device.type == "cuda":
        yield make_table("host_copy", {(float(n),): [_host_copy(n, device=device, repeats=repeats)] for n in sizes})


def _neighbours(local: int) -> tuple[int, int] | None:
    """(whom this rank sends to, whom it hears) in its node."""
    if local < 2:
        return None
    first, place = dist.get_rank() // local * local, dist.get_rank() % local
    return first + (place + 1) % local, first + (place - 1) % local


def _counterparts(local: int, world: int) -> tuple[int, int] | None:
    if world <= local:
        return None
    return (dist.get_rank() + local) % world, (dist.get_rank() - local) % world


def _group_sizes(world: int) -> list[int]:
    """Sizes of groups that the ranks can be cut into evenly."""
    return [n for n in range(2, world + 1) if world % n == 0]


def _own_group(ranks: int, world: int) -> dist.ProcessGroup:
    groups = [dist.new_group(list(range(first, first + ranks))) for first in range(0, world, ranks)]
    return groups[dist.get_rank() // ranks]


def _message(nbytes: int, peers: tuple[int, int], *, device: torch.device, repeats: int) -> float:
    to, back = peers
    sent, received = (torch.zeros(nbytes, dtype=torch.uint8, device=device) for _ in range(2))

    def work(mark: Mark) -> None:
        dist.barrier()
        mark()
        moves = [dist.P2POp(dist.isend, sent, to), dist.P2POp(dist.irecv, received, back)]
        for each in dist.batch_isend_irecv(moves):
            each.wait()
        mark()

    return over_ranks(medians(laps(work, device=device, repeats=repeats)))[0]


def _collective(
    kind: Collective, nbytes: int, group: dist.ProcessGroup, *, device: torch.device, repeats: int
) -> float:
    """nbytes: of the whole tensor."""
    ranks = dist.get_world_size(group)
    share = torch.zeros(max(1, nbytes // 4 // ranks), dtype=torch.float32, device=device)
    whole = torch.zeros(len(share) * ranks, dtype=torch.float32, device=device)
    source = dist.get_global_rank(group, 0)
    calls: dict[Collective, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: _GATHER(whole, share, group=group),
        "reduce_scatter": lambda: _SCATTER(share, whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, src=source, group=group),
    }

    def work(mark: Mark) -> None:
        dist.barrier(group=group)
        mark()
        calls[kind]()
        mark()

    return over_ranks(medians(laps(work, device=device, repeats=repeats)))[0]


def _host_copy(nbytes: int, *, device: torch.device, repeats: int) -> float:
    here = torch.zeros(nbytes, dtype=torch.uint8, device=device)
    there = torch.zeros(nbytes, dtype=torch.uint8, pin_memory=True)

    def work(mark: Mark) -> None:
        mark()
        there.copy_(here, non_blocking=True)
        mark()

    return over_ranks(medians(laps(work, device=device, repeats=repeats)))[0]

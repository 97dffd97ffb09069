"""Whether lists of computes, sends and receives can hang when a send blocks until its receive is posted.

An NCCL send may return at once or only when the peer receives; a list must be safe under the second. Messages carry
no tag: what a rank sends to another is matched in sequence, so crossed messages are found here too. Each rank stands
at the head of its list; a send and its receive pass together; when no head can move, the ranks wait in a cycle.
"""

from collections.abc import Sequence

from schedules.lower import Compute, Instruction, Recv, Send
from schedules.order import OrderError


def check_rendezvous(lists: Sequence[Sequence[Instruction]]) -> None:
    """Run the lists with blocking sends. Raises OrderError naming the cycle of heads, or an unmatched message."""
    heads = [0] * len(lists)
    moving = list(range(len(lists)))
    while moving:
        rank = moving.pop()
        while (peer := _step(lists, heads, rank)) is not None:
            if peer != rank:
                moving.append(peer)
    stuck = [rank for rank, row in enumerate(lists) if heads[rank] < len(row)]
    if stuck:
        raise OrderError(_reason(lists, heads, stuck[0]))


def _step(lists: Sequence[Sequence[Instruction]], heads: list[int], rank: int) -> int | None:
    """Move one rank on if it can. Gives the rank that moved with it (itself for a compute), or None."""
    here = _head(lists, heads, rank)
    if here is None:
        return None
    if isinstance(here, Compute):
        heads[rank] += 1
        return rank
    peer = _peer(here)
    there = _head(lists, heads, peer)
    if not isinstance(there, Send | Recv) or type(there) is type(here) or there.message != here.message:
        return None
    heads[rank] += 1
    heads[peer] += 1
    return peer


def _head(lists: Sequence[Sequence[Instruction]], heads: list[int], rank: int) -> Instruction | None:
    return lists[rank][heads[rank]] if heads[rank] < len(lists[rank]) else None


def _peer(instruction: Send | Recv) -> int:
    message = instruction.message
    return message.dst_rank if isinstance(instruction, Send) else message.src_rank


def _reason(lists: Sequence[Sequence[Instruction]], heads: list[int], rank: int) -> str:
    path = [rank]
    while path[-1] not in path[:-1]:
        here = _head(lists, heads, path[-1])
        if here is None:
            return f"{_at(lists, heads, path[-2])} waits for rank {path[-1]}, whose list has ended"
        assert isinstance(here, Send | Recv), "a compute never blocks"
        path.append(_peer(here))
    cycle = path[path.index(path[-1]) : -1]
    waits = " waits for ".join(_at(lists, heads, r) for r in [*cycle, cycle[0]])
    return f"the ranks would hang with blocking sends: {waits}"


def _at(lists: Sequence[Sequence[Instruction]], heads: list[int], rank: int) -> str:
    return f"rank {rank} at {_head(lists, heads, rank) or 'its end'}"

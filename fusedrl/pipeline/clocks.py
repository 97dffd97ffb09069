"""The clocks of a team's ranks, brought to its first's: what is added to a rank's times, and how wrong that may be.

Ranks of one host read one clock: offset 0, error 0. Between hosts the zeros are unrelated, so the first rank of each
further host is asked for its time, some rounds in turn:

    rank 0   t0 -------- ask ------->                     offset = (t0 + t1) / 2 - theirs
    rank r              theirs                            error <= (t1 - t0) / 2, of the round that took least
    rank 0   t1 <------- tell -------

The bound holds however unequal the two ways are. Clocks also drift apart, some microseconds a second: offsets are
estimated with every pass that is gathered.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from fusedrl.parallel.comm import broadcast_object
from fusedrl.parallel.team import current, leads

ROUNDS = 16


@dataclass(frozen=True)
class Alignment:
    """By rank, ns: what to add to its times to get rank 0's, and the bound on the error of that."""

    offsets: tuple[int, ...]
    errors: tuple[int, ...]

    @property
    def error(self) -> int:
        """The bound for two ranks' times against each other, at worst."""
        return sum(sorted(self.errors)[-2:])


def host_id() -> str:
    """A name that ranks share where they share the monotonic clock: the kernel's boot and the time namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/time')}"
    except OSError:
        return os.uname().nodename


def align(hosts: Sequence[str], *, clock: Callable[[], int] = time.perf_counter_ns) -> Alignment:
    """hosts: every rank's host_id(), by its place in the team. Ranks of one host exchange nothing. A collective of the
    team."""
    first = {host: hosts.index(host) for host in dict.fromkeys(hosts)}
    found = {hosts[0]: [0, 0]}
    for host, place in list(first.items())[1:]:
        if leads():
            found[host] = _ask(current().ranks[place], clock)
        elif current().place() == place:
            _tell(clock)
    if len(first) > 1:
        found = broadcast_object(found)
    return Alignment(*zip(*(found[host] for host in hosts), strict=True))


def _ask(rank: int, clock: Callable[[], int]) -> list[int]:
    """[offset, error] of a rank's clock."""
    theirs = torch.zeros(1, dtype=torch.int64, device=_device())
    best: list[int] = []
    for _ in range(ROUNDS):
        before = clock()
        dist.send(theirs, rank, group=current().group)
        dist.recv(theirs, rank, group=current().group)
        told = int(theirs)
        after = clock()
        error = -(-(after - before) // 2)
        if not best or error < best[1]:
            best = [(before + after) // 2 - told, error]
    return best


def _tell(clock: Callable[[], int]) -> None:
    for _ in range(ROUNDS):
        token = torch.zeros(1, dtype=torch.int64, device=_device())
        dist.recv(token, current().first, group=current().group)
        token.fill_(clock())
        dist.send(token, current().first, group=current().group)


def _device() -> torch.device:
    on_gpu = dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

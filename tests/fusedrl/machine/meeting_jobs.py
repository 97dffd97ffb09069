"""The meeting of ranks in the world that the pool has joined already."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from fusedrl.machine.meeting import meet
from fusedrl.machine.place import Place
from fusedrl.trainers import world


def met() -> tuple[str, list[str]]:
    """What was found, and the hosts that the ranks named."""

    @contextmanager
    def already(*, timeout_s: float) -> Iterator[torch.device]:
        yield torch.device("cpu")

    joined, world.joined = world.joined, already  # type: ignore[assignment]
    try:
        rank = dist.get_rank()
        found, everyone = meet({"host": str(rank)}, Place(rank=rank, world=2, source="torchrun"), timeout_s=10.0)
    finally:
        world.joined = joined
    return found.text, [each["host"] for each in everyone]

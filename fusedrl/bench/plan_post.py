"""What ranks that act out a plan send each other."""

from collections import defaultdict

import torch
import torch.distributed as dist
from torch import Tensor


class Post:
    """This rank's messages: sent without waiting, received where they are needed. Those to itself stay here."""

    def __init__(self) -> None:
        self._sent: list[tuple[dist.Work | None, Tensor]] = []
        self._own: dict[int, list[Tensor]] = defaultdict(list)

    def send(self, tensor: Tensor, rank: int, *, tag: int) -> None:
        if rank == dist.get_rank():
            self._own[tag].append(tensor)
        else:
            self._sent.append((dist.isend(tensor, rank, tag=tag), tensor))

    def receive(self, rank: int, *, tag: int, numbers: int = 1) -> Tensor:
        if rank == dist.get_rank():
            return self._own[tag].pop(0)
        found = torch.empty(numbers)
        dist.recv(found, rank, tag=tag)
        return found

    def finish(self) -> None:
        """Wait until all that was sent is taken."""
        for work, _ in self._sent:
            if work is not None:
                work.wait()
        self._sent.clear()
        assert not any(self._own.values()), "a message of this rank to itself was not taken"

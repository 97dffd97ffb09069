"""A process group seen from its other end: the critic's pipeline runs over the actor's ranks in reverse.

torch sorts the ranks of a new group, so a reversed group does not exist; Megatron asks a pipeline group only for
`rank()` and `size()`. This view answers `size - 1 - rank`: the last rank holds the embedding, rank 0 the head.
torch.distributed's functions want the group itself: `plain(group)`.
"""

from typing import Any

import torch.distributed as dist


class ReversedGroup:
    """A pipeline group whose rank is mirrored; everything else is the group's own."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group

    def rank(self) -> int:
        return self.group.size() - 1 - self.group.rank()

    def size(self) -> int:
        return self.group.size()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.group, name)


def plain(group: "dist.ProcessGroup | ReversedGroup") -> dist.ProcessGroup:
    """The torch process group behind a pipeline group."""
    return group.group if isinstance(group, ReversedGroup) else group


def stage_ranks(group: "dist.ProcessGroup | ReversedGroup") -> tuple[int, ...]:
    """Global rank of each stage of this rank's pipeline, first stage first."""
    ranks = tuple(dist.get_process_group_ranks(plain(group)))
    return ranks[::-1] if isinstance(group, ReversedGroup) else ranks

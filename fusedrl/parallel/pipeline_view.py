"""Pipeline groups as a model's stages see them. Megatron asks a pipeline group only for `rank()` and `size()`.

ReversedGroup   `size - 1 - rank`: the critic's pipeline runs over the actor's ranks in reverse (torch sorts the ranks
                of a new group, so a reversed one does not exist); the last rank holds the embedding, rank 0 the head
StageGroup      stage k of S, whatever the rank: for ranks that hold several stages of a model

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


class StageGroup:
    """A pipeline group as one stage's module sees it; everything else is the group's own."""

    def __init__(self, group: "dist.ProcessGroup | ReversedGroup", *, stage: int, stages: int) -> None:
        self.group = plain(group)
        self._stage, self._stages = stage, stages

    def rank(self) -> int:
        return self._stage

    def size(self) -> int:
        return self._stages

    def __getattr__(self, name: str) -> Any:
        return getattr(self.group, name)


def plain(group: "dist.ProcessGroup | ReversedGroup | StageGroup") -> dist.ProcessGroup:
    """The torch process group behind a pipeline group."""
    return group.group if isinstance(group, ReversedGroup | StageGroup) else group


def stage_ranks(group: "dist.ProcessGroup | ReversedGroup") -> tuple[int, ...]:
    """Global rank of each stage of this rank's pipeline, first stage first."""
    ranks = tuple(dist.get_process_group_ranks(plain(group)))
    return ranks[::-1] if isinstance(group, ReversedGroup) else ranks

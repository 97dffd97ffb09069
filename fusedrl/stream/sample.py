"""A sample's life, and the ledger of where every sample of a step stands.

    queued -> generating -> finished -> scored -> ready
                 |   ^          ^
                 v   |          |
               migrating -------+

queued: no instance has it. migrating: taken from one instance, or about to be, and not yet on the next; it may still
finish where it is. finished: its response is whole. scored: the reward function has answered. ready: scored, and every
model that reads it has. Any other step is an error of the program.
"""

from collections import Counter
from collections.abc import Iterable
from enum import Enum


class Stage(Enum):
    """Where a sample stands."""

    QUEUED = "queued"
    GENERATING = "generating"
    MIGRATING = "migrating"
    FINISHED = "finished"
    SCORED = "scored"
    READY = "ready"


NEXT: dict[Stage, frozenset[Stage]] = {
    Stage.QUEUED: frozenset({Stage.GENERATING}),
    Stage.GENERATING: frozenset({Stage.MIGRATING, Stage.FINISHED}),
    Stage.MIGRATING: frozenset({Stage.GENERATING, Stage.FINISHED}),
    Stage.FINISHED: frozenset({Stage.SCORED}),
    Stage.SCORED: frozenset({Stage.READY}),
    Stage.READY: frozenset(),
}
UNFINISHED = (Stage.QUEUED, Stage.GENERATING, Stage.MIGRATING)


class IllegalTransition(RuntimeError):
    """A sample was to take a step that its stage does not allow."""


class Ledger:
    """The stage of every sample of a step, and how many are in each."""

    def __init__(self, sample_ids: Iterable[int]) -> None:
        ids = list(sample_ids)
        self._stage = dict.fromkeys(ids, Stage.QUEUED)
        if len(self._stage) < len(ids):
            raise ValueError(f"{len(ids)} samples have {len(self._stage)} distinct ids: give each its own")
        self.counts: Counter[Stage] = Counter(dict.fromkeys(Stage, 0) | {Stage.QUEUED: len(ids)})

    def __len__(self) -> int:
        return len(self._stage)

    def __contains__(self, sample_id: int) -> bool:
        return sample_id in self._stage

    @property
    def unfinished(self) -> int:
        """Samples whose response is not whole."""
        return sum(self.counts[stage] for stage in UNFINISHED)

    @property
    def all_ready(self) -> bool:
        return self.counts[Stage.READY] == len(self._stage)

    def stage(self, sample_id: int) -> Stage:
        return self._stage[sample_id]

    def move(self, sample_id: int, *, to: Stage) -> None:
        """Take one step of the picture above."""
        now = self._stage[sample_id]
        if to not in NEXT[now]:
            raise IllegalTransition(f"sample {sample_id} is {now.value}: it cannot become {to.value}")
        self._stage[sample_id] = to
        self.counts[now] -= 1
        self.counts[to] += 1

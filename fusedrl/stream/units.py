"""Units of inference: which samples a model reads in one call, fixed before the step, and which units may run now.

A unit is (task, group of sample ids). Groups are neighbours in sample-id order, `size` at a time, whatever the order in
which samples finish: a forward pass over the same rows gives the same bits, so results do not depend on arrival. A unit
is ready when all its samples are finished.

    tasks x groups:   ref:0  ref:1 ...   values:0  values:1 ...         size 4: group 1 = samples 4..7
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusedrl.stream.messages import UnitRef


def compose(sample_ids: Sequence[int], *, size: int) -> list[tuple[int, ...]]:
    """The groups, by index."""
    if size < 1:
        raise ValueError(f"rollout.stream.unit_size={size}: a unit reads at least 1 sample")
    ids = sorted(sample_ids)
    return [tuple(ids[start : start + size]) for start in range(0, len(ids), size)]


@dataclass(frozen=True)
class Chunk:
    """Units of one task handed out together."""

    task: str
    groups: tuple[int, ...]

    @property
    def units(self) -> tuple[UnitRef, ...]:
        return tuple(UnitRef(self.task, index) for index in self.groups)


class ReadyUnits:
    """Units whose samples are finished and that nobody has taken, the largest first."""

    def __init__(self, groups: Sequence[Sequence[int]], *, tasks: Sequence[str]) -> None:
        self._group_of = {sample: index for index, group in enumerate(groups) for sample in group}
        self._missing = [len(group) for group in groups]
        self._tokens = [0] * len(groups)
        self._heaps: dict[str, list[tuple[int, int]]] = {task: [] for task in tasks}
        self._waiting: dict[str, int] = dict.fromkeys(tasks, 0)  # tokens

    def __bool__(self) -> bool:
        return any(self._heaps.values())

    @property
    def tokens(self) -> int:
        """Of all units that may run now."""
        return sum(self._waiting.values())

    @property
    def waiting(self) -> Mapping[str, int]:
        return self._waiting

    def finished(self, sample_id: int, *, tokens: int) -> None:
        """A sample of so many tokens, prompt and response, can be read now."""
        index = self._group_of[sample_id]
        self._missing[index] -= 1
        self._tokens[index] += tokens
        if not self._missing[index]:
            for task, heap in self._heaps.items():
                heapq.heappush(heap, (-self._tokens[index], index))
                self._waiting[task] += self._tokens[index]

    def take(self, *, last_task: str, tokens: int) -> Chunk | None:
        """Units of one task, largest first, until they hold `tokens`; at least one.

        `last_task` goes on where it can: whoever ran it has its weights at hand. Else the task with most to do.
        """
        task = (
            last_task if self._heaps.get(last_task) else max(self._waiting, key=self._waiting.__getitem__, default="")
        )
        heap = self._heaps.get(task)
        if not heap:
            return None
        taken: list[int] = []
        held = 0
        while heap and (not taken or held < tokens):
            size, index = heapq.heappop(heap)
            taken.append(index)
            held -= size
        self._waiting[task] -= held
        return Chunk(task, tuple(taken))

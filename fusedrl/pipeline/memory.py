"""What a rank holds for backwards to come, measured: micro-batches in flight, and the bytes that their graphs save.

    F  +bytes of the storages that the forward saved, parameters aside      last of B, W  -bytes

A micro-batch counts from its F to its B, or to its W where the order splits the backward, as in a plan. A storage that
several layers save counts once. Bytes are those that autograd is given to keep (save_for_backward); what a layer keeps
in other ways is not seen.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from schedules.order import Op, Order
from schedules.problem import Model, Problem
from schedules.replay import replay

Entry = tuple[str, int, int]
"""(model, stage, micro-batch)"""


class Held(NamedTuple):
    """What a rank holds once an op has run."""

    op: Op
    microbatches: int
    nbytes: int


class MemoryMeter:
    """Follows one pass on one rank. parameters: what counts as weights, not as activations."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._weights = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._bytes: dict[Entry, int] = {}
        self.curve: list[Held] = []

    @contextmanager
    def forward(self, entry: Entry) -> Iterator[None]:
        """Count what forwards inside save, under the entry."""
        storages: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._weights:
                storages[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            yield
        self._bytes[entry] = sum(storages.values())

    def note(self, op: Op, entries: Collection[Entry]) -> None:
        """An op has run, and these entries are held now."""
        self.curve.append(Held(op, len(entries), sum(self._bytes[entry] for entry in entries)))


@dataclass(frozen=True)
class MemoryPeaks:
    """By rank: the most micro-batches and bytes held at once; the plan's micro-batches and memory, in its own unit."""

    microbatches: tuple[int, ...]
    nbytes: tuple[int, ...]
    planned_microbatches: tuple[int, ...]
    planned: tuple[float, ...]


def peaks(problem: Problem, order: Order, curves: Sequence[Sequence[Held]], *, columns: Sequence[int]) -> MemoryPeaks:
    """The peaks of all ranks' curves beside those of the plan."""
    planned, counted = replay(problem, order).peak_memory, replay(_counting(problem), order).peak_memory
    return MemoryPeaks(
        microbatches=tuple(max((held.microbatches for held in curve), default=0) for curve in curves),
        nbytes=tuple(max((held.nbytes for held in curve), default=0) for curve in curves),
        planned_microbatches=tuple(round(counted[column]) for column in columns),
        planned=tuple(planned[column] for column in columns),
    )


def _counting(problem: Problem) -> Problem:
    """Each micro-batch of a stage that trains counts 1; one that does not holds nothing for a backward."""

    def counted(model: Model) -> Model:
        return replace(model, activation=1.0 if model.trains else 0.0)

    return replace(problem, models=tuple(counted(model) for model in problem.models), memory_cap=None)

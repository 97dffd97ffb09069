"""The models that read finished samples on the instances of a stream: a copy of each in the generation layout.

    actor    the engine's own model           critic         a copy; its weights come by the hand-over before each step
    ref      from its folder, once            reward         from its folder, once

One call reads the samples of one unit, by Megatron's forward and by the same functions that the pipeline's forward-only
passes collect with (forward.py). A unit's samples are fixed and nothing else shares the call, so its results do not
depend on when or where it runs. They leave as float32, without padding.

With `offload` copies wait in CPU memory, and one at a time has its weights on the GPU. This way has not run on one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from fusedrl.models.build import build_model
from fusedrl.models.hf_import import load_hf
from fusedrl.models.options import PLAIN
from fusedrl.parallel.groups import ProcessGroupCollection, build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.team import current
from fusedrl.pipeline.megatron_stage import megatron_model
from fusedrl.rollout.handover import hand_over
from fusedrl.rollout.requests import Completion
from fusedrl.rollout.step_times import StepTimes
from fusedrl.trainers.forward import Collect, microbatches
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.retokenizing import Retokenizer
from fusedrl.trainers.roles import Role, RoleSpec
from fusedrl.trainers.samples import Samples, gather_samples


@dataclass(frozen=True, eq=False)
class Reader:
    """A model and what to keep of its output: results `names`, one a response token; by_token off: one a sample.

    retokenizer: of a model that reads samples in tokens of its own."""

    role: Role
    names: tuple[str, ...]
    collect: Collect
    by_token: bool = True
    retokenizer: Retokenizer | None = None


def copy_groups(layout: Layout, *, timeout_s: float, key: str) -> ProcessGroupCollection:
    """Groups of the copies, which never run at the same time. A collective of all ranks."""
    return build_groups(layout, timeout=timedelta(seconds=timeout_s), key=key)


def copy_of(role: Role, *, layout: Layout, groups: ProcessGroupCollection) -> Role:
    """A trained role in the generation layout; its weights are to be handed over."""
    spec = _as_copy(role.spec, layout)
    module = build_model(role.architecture, groups, head=spec.head, **_built(spec))
    return _role(spec, role.architecture, groups, module)


def frozen_copy(spec: RoleSpec, architecture: Any, *, layout: Layout, groups: ProcessGroupCollection) -> Role:
    """A frozen role in the generation layout, its weights read from its folder."""
    spec = _as_copy(spec, layout)
    module = build_model(architecture, groups, head=spec.head, **_built(spec))
    load_hf(module, spec.folder)
    return _role(spec, architecture, groups, module)


def of_engine(actor: Role, module: nn.Module, *, layout: Layout, groups: ProcessGroupCollection) -> Role:
    """The actor as the engine holds it."""
    return _role(_as_copy(actor.spec, layout), actor.architecture, groups, module)


def _as_copy(spec: RoleSpec, layout: Layout) -> RoleSpec:
    return replace(spec, layout=layout, reverse=False, placement="line", splits=False, options=PLAIN)


def _built(spec: RoleSpec) -> dict[str, Any]:
    return {"dtype": spec.dtype, "implementation": spec.implementation, "key": spec.key}


def _role(spec: RoleSpec, architecture: Any, groups: ProcessGroupCollection, module: nn.Module) -> Role:
    module.eval()
    pipeline = megatron_model(spec.name, module, layout=spec.layout, rank=dist.get_rank())
    return Role(spec, architecture, groups, module, pipeline)


class Readers:
    """fusedrl.stream's `Inference` on this rank. width: data.max_response_length. offload: tasks that may wait on the
    CPU. asked: the prompts that samples answer, and how many of each, by ids of samples."""

    def __init__(self, readers: Mapping[str, Reader], *, width: int, pad_id: int, offload: Sequence[str] = ()) -> None:
        self.readers, self.times = readers, StepTimes()
        self._width, self._pad_id = width, pad_id
        self.asked: tuple[Sequence[PromptRow], int] = ((), 1)
        self._offload, self._awake = frozenset(offload), ""
        for task in offload:
            _move(self.readers[task].role, "cpu")

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.readers)

    @property
    def device(self) -> torch.device:
        return next(iter(self.readers.values())).role.device

    def load(self, critic: Role | None) -> None:
        """The critic's present weights, and word to all models that weights are new. A collective of all ranks."""
        if critic is not None:
            self._wake("critic")
            hand_over(critic.module, self.readers["critic"].role.module)
        for reader in self.readers.values():
            assert reader.role.pipeline.before_pass is not None
            reader.role.pipeline.before_pass()

    def infer(self, task: str, samples: Sequence[Completion]) -> dict[str, list[np.ndarray]]:
        """Each result's float32 array of each sample. A collective of the instance's ranks."""
        began, reader = perf_counter(), self.readers[task]
        self._wake(task)
        batch = self._batch(reader, samples)
        (read,) = microbatches(batch, [torch.arange(batch.size)], device=reader.role.device)
        with torch.no_grad():
            found_BKW = reader.collect(reader.role.pipeline.stages[0](read, None), read).float().cpu()
        widths = batch.response_lengths_B.tolist() if reader.by_token else [1] * batch.size
        self.times.inferred(task, int(batch.lengths_B.sum()), ms=1e3 * (perf_counter() - began))
        return {
            name: [found_BKW[b, k, :width].numpy() for b, width in enumerate(widths)]
            for k, name in enumerate(reader.names)
        }

    def _batch(self, reader: Reader, samples: Sequence[Completion]) -> Samples:
        """In the tokens that this model reads."""
        if reader.retokenizer is None:
            return gather_samples(samples, max_response_length=self._width, pad_id=self._pad_id)
        rows, n = self.asked
        return reader.retokenizer.samples([rows[sample.sample_id // n] for sample in samples], samples)

    def take_cut(self) -> int | None:
        """Rows cut on all instances since the last call; None where no model has tokens of its own. A collective of all
        ranks."""
        makers = [reader.retokenizer for reader in self.readers.values() if reader.retokenizer is not None]
        if not makers:
            return None
        groups = next(iter(self.readers.values())).role.groups
        mine = sum(maker.take_cut() for maker in makers) if groups.tp.rank() == 0 else 0
        total = torch.tensor(mine, device=self.device)
        dist.all_reduce(total, group=current().group)
        return int(total)

    def rest(self) -> None:
        """After a step: what may wait on the CPU does."""
        self._wake("")

    def _wake(self, task: str) -> None:
        """At most one model of those that may wait has its weights on the device."""
        if task == self._awake or not self._offload:
            return
        if self._awake in self._offload:
            _move(self.readers[self._awake].role, "cpu")
        if task in self._offload:
            role = self.readers[task].role
            _move(role, role.device)
        self._awake = task


def _move(role: Role, device: torch.device | str) -> None:
    """The parameters stay the objects that plans of hand-overs know."""
    for parameter in role.module.parameters():
        parameter.data = parameter.data.to(device)

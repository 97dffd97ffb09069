"""What a rank writes of a run's models: a copy of its share of values and moments, and where that share belongs.

Copies of one shard (data-parallel replicas without a distributed optimizer) take turns: each writes a part of the
parameters. Of a parameter that tensor-parallel ranks hold alike the first writes.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fusedrl.checkpoint.pieces import (
    FRAGMENTS,
    Fragment,
    layout_independent,
    open_models,
    tensor_name,
    to_plain,
)
from fusedrl.checkpoint.tensor_file import read_metadata, read_part
from fusedrl.models.optimizer_state import MOMENTS, VALUE, Kept, kept, restore
from fusedrl.models.rng_state import random_states, restore_random_states
from fusedrl.models.training import TrainableModel
from fusedrl.parallel.team import leads
from fusedrl.rollout.handover import describe
from fusedrl.rollout.reshard import Shard

RANDOM, RUN = "random", "run"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Flat CPU tensors that no later step changes, and the header's entries that describe them."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


def rank_file(rank: int) -> str:
    return f"rank_{rank:05d}.safetensors"


def take_snapshot(models: Mapping[str, TrainableModel], beside: Mapping[str, Tensor] | None = None) -> Snapshot:
    """Copies this rank's share of all models. beside: flat CPU tensors of the run, fp32 or bytes, the same on every
    rank and never changed; rank 0 writes them."""
    tensors = {f"{RUN}/{name}": tensor for name, tensor in (beside or {}).items() if leads()}
    fragments: dict[str, list[Fragment]] = {}
    for name, model in models.items():
        fragments[name] = []
        for shard, share in owned(model):
            found = share.tensors()
            fragments[name].append(Fragment("", shard, share.start, share.stop, tuple(found)))
            tensors |= {tensor_name(name, kind, shard.name): _copy(tensor) for kind, tensor in found.items()}
    states = random_states()
    tensors |= {f"{RANDOM}/{name}": state for name, state in states.items()}
    metadata = {FRAGMENTS: json.dumps({name: to_plain(each) for name, each in fragments.items()})}
    return Snapshot(tensors, metadata | {RANDOM: json.dumps(list(states))})


def owned(model: TrainableModel) -> Iterator[tuple[Shard, Kept]]:
    """What this rank writes of a model: each entry of it is one rank's to write."""
    shares, replicas = kept(model), model.groups.dp_cp
    for number, shard in enumerate(describe(model.module)):
        share = shares.get(shard.local_name)
        if share is None:
            continue
        alike = not getattr(share.parameter, "tensor_model_parallel", False) and model.groups.tp.rank() > 0
        others = not model.settings.use_distributed_optimizer and number % replicas.size() != replicas.rank()
        if not (alike or others):
            yield layout_independent(shard), share


def restore_models(
    folder: Path, files: Mapping[str, object], models: Mapping[str, TrainableModel], steps: Mapping[str, int | None]
) -> None:
    """Fill all models from a saved state of any layout. steps: of each model's Adam. Raises ValueError on a lack."""
    saved = open_models(folder, list(files), list(models))
    for name, model in models.items():
        shards = {shard.local_name: shard for shard in describe(model.module)}
        values = {local: saved[name].entries(shard, kind=VALUE) for local, shard in shards.items()}
        moments: dict[str, dict[str, Tensor]] = {}
        if steps[name] is not None:
            for local, share in kept(model).items():
                place = {"start": share.start, "stop": share.stop}
                moments[local] = {kind: saved[name].entries(shards[local], kind=kind, **place) for kind in MOMENTS}
        restore(model, values=values, moments=moments, steps=steps[name])


def restore_random(folder: Path, *, rank: int) -> None:
    """This rank's generators, for a run on the saved layout."""
    path = folder / rank_file(rank)
    names = json.loads(read_metadata(path)[RANDOM])
    restore_random_states({name: read_part(path, f"{RANDOM}/{name}") for name in names})


def read_beside(folder: Path, name: str) -> Tensor:
    """A tensor that was saved beside the models."""
    return read_part(folder / rank_file(0), f"{RUN}/{name}")


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32, copy=True)

"""Actors and critics of any layout on gloo ranks: filled from a state, or with random numbers, and written again."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.checkpoint.snapshot import rank_file, restore_models, restore_random, take_snapshot
from fusedrl.checkpoint.tensor_file import write_tensors
from fusedrl.config.schema import MegatronConfig, OptimConfig
from fusedrl.models import optimizer_state
from fusedrl.models.optimizer_state import MOMENTS, adam_steps, kept, restore
from fusedrl.models.training import TrainableModel
from fusedrl.trainers.roles import RoleSpec, build_trained_role

STEPS = 3


def build(folder: str, *, megatron: MegatronConfig, placement: str) -> dict[str, TrainableModel]:
    place: dict[str, Any] = {"folder": folder, "placement": placement, "splits": True}
    specs = [
        RoleSpec.of("actor", megatron, key="actor", **place),
        RoleSpec.of("critic", megatron, key="critic", head="value", reverse=True, **place),
    ]
    distributed = megatron.use_distributed_optimizer
    options: dict[str, Any] = {"distributed_optimizer": distributed, "steps": 10, "seed": 0, "timeout_s": 60.0}
    return {spec.name: build_trained_role(spec, OptimConfig(), **options).trained for spec in specs}


def fill(model: TrainableModel) -> None:
    """Random moments; Adam has taken STEPS steps. Values stay those of the model's folder. One rank's model."""
    generator = torch.Generator().manual_seed(7)
    shares = kept(model)
    moments = {n: {k: torch.rand(s.main.numel(), generator=generator) for k in MOMENTS} for n, s in shares.items()}
    values = {name: parameter.detach().reshape(-1) for name, parameter in model.module.named_parameters()}
    restore(model, values=values, moments=moments, steps=STEPS)


def through(
    folder: str, *, source: str | None, into: str, keys: dict[str, Any], placement: str = "line"
) -> dict[str, Any]:
    """Models of a layout, filled from `source` (None: with random moments), written to `into`. What is in them."""
    models = build(folder, megatron=MegatronConfig(**keys), placement=placement)
    if source is None:
        for model in models.values():
            fill(model)
    else:
        files = sorted(path.name for path in Path(source).iterdir())
        restore_models(Path(source), dict.fromkeys(files), models, dict.fromkeys(models, STEPS))
    Path(into).mkdir(exist_ok=True)
    snapshot = take_snapshot(models)
    before = {name: tensor.clone() for name, tensor in snapshot.tensors.items()}
    rounded = all(
        torch.equal(share.main.to(share.parameter.dtype), share.parameter.detach().view(-1)[share.start : share.stop])
        for model in models.values()
        for share in kept(model).values()
    )
    for model in models.values():
        for share in kept(model).values():
            for tensor in share.tensors().values():
                tensor.add_(1.0)  # training goes on
    write_tensors(Path(into) / rank_file(dist.get_rank()), snapshot.tensors, metadata=snapshot.metadata)
    kept_still = all(torch.equal(before[name], tensor) for name, tensor in snapshot.tensors.items())
    numbers = sum(tensor.numel() for name, tensor in snapshot.tensors.items() if not name.startswith("random/"))
    steps = {adam_steps(model) for model in models.values()}
    return {"rounded": rounded, "kept_still": kept_still, "numbers": numbers, "steps": sorted(map(str, steps))}


def generators(*, folder: str) -> list[bool]:
    """Numbers drawn after a state was written, and again after it was put back."""
    from megatron.core.tensor_parallel.random import get_cuda_rng_tracker

    def draw() -> list[torch.Tensor]:
        with get_cuda_rng_tracker().fork("state-test"):
            inside = torch.rand(3)
        return [torch.rand(3), inside]

    tracker = get_cuda_rng_tracker()
    if "state-test" not in tracker.get_states():
        tracker.add("state-test", 5 + dist.get_rank())
    torch.manual_seed(dist.get_rank())
    torch.rand(2)
    snapshot = take_snapshot({})
    write_tensors(Path(folder) / rank_file(dist.get_rank()), snapshot.tensors, metadata=snapshot.metadata)
    first, other = draw(), draw()
    restore_random(Path(folder), rank=dist.get_rank())
    again = draw()
    same = [torch.equal(a, b) for a, b in zip(first, again, strict=True)]
    moved = [not torch.equal(a, b) for a, b in zip(first, other, strict=True)]
    return same + moved


def shares(folder: str, *, keys: dict[str, Any]) -> dict[str, Any]:
    """The actor's shares on this rank, before a step and after restoring, with either way of counting Adam's steps."""
    model = build(folder, megatron=MegatronConfig(**keys), placement="line")["actor"]
    values = {name: parameter.detach().flatten() for name, parameter in model.module.named_parameters()}
    sizes = {name: tensor.numel() for name, tensor in values.items()}
    before = {"steps": adam_steps(model), "kinds": sorted({kind for s in kept(model).values() for kind in s.tensors()})}
    restore(model, values=values, moments={}, steps=None)
    unbegun = adam_steps(model)
    fill(model)
    after = {"steps": adam_steps(model), "kinds": sorted({kind for s in kept(model).values() for kind in s.tensors()})}
    ranges = {name: (share.start, share.stop) for name, share in kept(model).items()}
    by_parameter = optimizer_state._counts_by_parameter
    optimizer_state._counts_by_parameter = lambda inner: False  # as Transformer Engine's and apex's Adam count
    try:
        fill(model)
        groups = {"steps": adam_steps(model), "in_groups": [g.get("step") for g in model.optimizer.param_groups]}
    finally:
        optimizer_state._counts_by_parameter = by_parameter
    return {"sizes": sizes, "before": before, "unbegun": unbegun, "after": after, "ranges": ranges, "groups": groups}

"""Jobs of test_parameter_gather.py: an actor and a critic train in fused passes on real stages, pp2 x dp2, and between
the passes somebody reads their parameters.

late: a gather moves nothing until somebody waits for it, which is the worst that a network may do: whoever reads
parameters without waiting sees those of before the step, every time.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from safetensors.numpy import load_file

from fusedrl.models.build import build_model
from fusedrl.models.hf_export import export_hf
from fusedrl.models.hf_import import load_hf
from fusedrl.models.parameter_gather import settle, under_way
from fusedrl.models.training import TrainableModel
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.microbatch import MicroBatch, shapes_of
from fusedrl.pipeline.plan import Planned, plan_pass
from fusedrl.pipeline.results import agree_shapes
from fusedrl.pipeline.training import train_pass
from fusedrl.rollout.handover import hand_over
from tests.fusedrl.pipeline.law_jobs import ARCH, Job, policy_loss, replica_batches, value_loss

LAYOUT = Layout(pp=2, dp=2)
COUNTS = {"actor": 3, "critic": 2}
Seen = dict[str, Any]


class _Late:
    """A gather that happens when it is waited for."""

    def __init__(self, gather: Callable[[], None]) -> None:
        self.wait = gather


def _make_late(model: TrainableModel) -> None:
    for each in model.ddp:
        for group in each.bucket_groups:
            group.start_param_sync = partial(_start_late, group, group.start_param_sync)


def _start_late(group: Any, begin: Callable[..., None], *, force_sync: bool) -> None:
    def gather() -> None:
        group.param_gather_handle = None
        begin(force_sync=True)

    assert not force_sync
    assert group.param_gather_handle is None, "a second gather while one is under way"
    group.param_gather_handle, group.param_gather_dispatched = _Late(gather), True


def train_and_read(*, gather: bool, late: bool = False, shape: str = "line", folder: str) -> Seen:
    """What each reader of parameters sees, the first to read after a step; "under way/N": after the N-th step."""
    made: dict[str, Any] = {"distributed_optimizer": True, "overlap": True, "gather": gather, "shape": shape}
    job = Job(LAYOUT, names=list(COUNTS), arch=ARCH, **made)
    for model in job.models.values() if late else ():
        _make_late(model)
    seen: Seen = {}
    readers = [_hand_over, _infer, partial(_export, folder=Path(folder)), _state, _next_pass]
    for number, read in enumerate(readers):
        _train(job, seed=number)
        seen[f"under way/{number}"] = [under_way(model.module) for model in job.models.values()]
        seen |= {f"{number}/{name}": value for name, value in read(job).items()}
    seen |= {f"end/{name}": value for name, value in _state(job).items()}
    return seen


def _train(job: Job, *, seed: int) -> None:
    batches = {n: replica_batches(count, seed=seed, replica=job.dp_i) for n, count in COUNTS.items()}
    losses = {
        "actor": partial(policy_loss, total=50, tp_group=job.models["actor"].groups.tp),
        "critic": partial(value_loss, total=50),
    }
    work = {name: Work(each, loss=losses[name]) for name, each in batches.items()}
    train_pass(job.executor, job.program(batches, method="fused"), work, models=job.models)
    for model in job.models.values():
        assert model.step().success


def _hand_over(job: Job) -> Seen:
    """To generation's layout: one stage a rank."""
    target = build_model(ARCH, build_groups(Layout(dp=4)), seed=77)
    hand_over(job.models["actor"].module, target)
    return {name: parameter.detach().numpy().copy() for name, parameter in target.named_parameters()}


def _infer(job: Job) -> Seen:
    """A forward-only pass of both models."""
    batches = {n: replica_batches(2, seed=9, replica=job.dp_i) for n in COUNTS}
    shapes = agree_shapes({n: shapes_of(each) for n, each in batches.items()})
    sizes = {"pp": LAYOUT.pp, "dp": LAYOUT.dp, "shape": job.shape, "trains": False}
    planned = [Planned(n, shapes[n], reverse=n == "critic", **sizes) for n in COUNTS]
    work = {n: Work(each, collect=_as_it_is) for n, each in batches.items()}
    result = job.executor.run(plan_pass(planned, method="fused"), work)
    return {f"{n}/{m}": output for n in COUNTS for m, output in result.models[n].outputs.items()}


def _as_it_is(output: Any, microbatch: MicroBatch) -> np.ndarray:
    return output.numpy().copy()


def _export(job: Job, *, folder: Path) -> Seen:
    """What the files of both models hold, on rank 0."""
    seen: Seen = {}
    for name, model in job.models.items():
        export_hf(model.module, model.groups, folder / name)
        if dist.get_rank() == 0:
            files = [load_file(path) for path in sorted((folder / name).glob("*.safetensors"))]
            seen |= {f"{name}/{key}": value for file in files for key, value in file.items()}
    dist.barrier()
    return seen


def _state(job: Job) -> Seen:
    """The whole state, after a step without a pass before it: the same gradients once more."""
    seen: Seen = {}
    for name, model in job.models.items():
        model.step()
        for i, stage in enumerate(model.state()["model"]):
            seen |= {f"{name}/{i}/{key}": value.numpy().copy() for key, value in _tensors(stage)}
    return seen


def _tensors(state: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(state, dict):
        return [pair for key, value in state.items() for pair in _tensors(value, f"{prefix}/{key}")]
    return [(prefix, state)] if hasattr(state, "numpy") else []


def _next_pass(job: Job) -> Seen:
    """Nobody reads before the next pass."""
    return {}


def load_while_under_way(*, folder: str) -> list[bool]:
    """Whether each parameter is the folder's after a load right behind a step, and stays so."""
    job = Job(LAYOUT, names=["actor", "critic"], arch=ARCH, distributed_optimizer=True, overlap=True, gather=True)
    actor = job.models["actor"]
    export_hf(actor.module, actor.groups, folder)
    before = [parameter.detach().clone() for parameter in actor.module.parameters()]
    _make_late(actor)
    _train(job, seed=0)
    load_hf(actor.module, folder)
    settle(actor.module)
    return [p.equal(old) for p, old in zip(actor.module.parameters(), before, strict=True)]

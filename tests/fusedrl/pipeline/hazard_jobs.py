"""Jobs of test_hazards.py: what is known to break pipelines elsewhere, provoked here."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.models.build import build_model
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.messages import Mailbox
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.program import make_program
from fusedrl.pipeline.stage import LossFunction, PipelineModel
from fusedrl.pipeline.training import train_pass
from schedules.builders.greedy import greedy
from tests.distributed.pipeline_jobs import (
    BUILDERS,
    microbatches,
    one_column_each,
    toy_loss,
    toy_model,
    toy_placements,
    toy_problem,
    toy_step,
)
from tests.fusedrl.pipeline.law_jobs import ARCH, Job, policy_loss, replica_batches, value_loss, whole_forward

COUNTS = {"actor": 5, "critic": 3}
Log = list[tuple[Any, ...]]


def opened() -> tuple[Log, Log]:
    """What this rank does with process groups while an executor is made, and then in a pass: ("new group", ranks),
    ("together", n-th group), ("send" | "receive", n-th group, other rank)."""
    log: Log = []
    numbers: dict[int, int] = defaultdict(lambda: len(numbers))

    def logged(name: str, call: Callable[..., Any], note: Callable[..., tuple[Any, ...]]) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            log.append((name, *note(*args, **kwargs)))
            return call(*args, **kwargs)

        return patch.object(dist, call.__name__, noted)

    def number(*args: Any, group: Any = None, **kwargs: Any) -> tuple[Any, ...]:
        return (numbers[id(group)], *(each for each in args if isinstance(each, int)))

    placements = toy_placements("opposed", dist.get_world_size())
    columns = one_column_each(dist.get_world_size())
    with ExitStack() as patches:
        patches.enter_context(logged("new group", dist.new_group, lambda ranks, **kwargs: (tuple(ranks),)))
        patches.enter_context(logged("together", dist.all_reduce, number))
        patches.enter_context(logged("send", dist.send, number))
        patches.enter_context(logged("receive", dist.recv, number))
        executor = Executor([toy_model(n, placement=p, columns=columns) for n, p in placements.items()])
        before = list(log)
        log.clear()
        problem = toy_problem(placements, COUNTS)
        work = {n: Work(microbatches(count, seed=1), loss=toy_loss(1)) for n, count in COUNTS.items()}
        executor.run(make_program(problem, greedy(problem)), work)
    executor.close()
    return before, log


def hundreds(*, count: int, depth: int | None = None) -> dict[str, Any]:
    """A pass of so many micro-batches, all forwards first: gradients of this rank, and the most sends unfinished.

    depth: all stages of a `depth`-column job on this one rank, as the reference.
    """
    most = [0]
    send = Mailbox.send

    def counted(self: Mailbox, *args: Any) -> None:
        send(self, *args)
        most[0] = max(most[0], *(len(unfinished) for unfinished in self._sent.values()))

    with patch.object(Mailbox, "send", counted):
        seen = _pass(["actor"], {"actor": count}, depth=depth, builder="gpipe")
    return seen | {"most": most[0]}


def two_dtypes(*, depth: int | None = None) -> dict[str, Any]:
    """A pass of an actor in float64 and a critic in float32; gradients of this rank."""
    return _pass(["actor", "critic"], COUNTS, depth=depth, builder="greedy", narrow=("critic",))


def _pass(
    names: Sequence[str],
    counts: dict[str, int],
    *,
    depth: int | None,
    builder: str,
    narrow: Sequence[str] = (),
) -> dict[str, Any]:
    world = dist.get_world_size()
    placements = {n: p for n, p in toy_placements("opposed", depth or world).items() if n in names}
    if depth:
        placements = {name: [0] * len(placement) for name, placement in placements.items()}
    models = [toy_model(name, placement=p, columns=one_column_each(world)) for name, p in placements.items()]
    models = [_narrowed(model) if model.name in narrow else model for model in models]
    executor = Executor(models, timeout=20)
    problem = toy_problem(placements, counts)
    work = {n: Work(microbatches(counts[n], seed=2), loss=toy_loss(7)) for n in names}
    executor.run(make_program(problem, BUILDERS[builder](problem)), work)
    seen: dict[str, Any] = {}
    for model in models:
        seen |= toy_step(model, number=0)
    executor.close()
    return seen


def _narrowed(model: PipelineModel) -> PipelineModel:
    for module in model.modules:
        module.to(torch.float32)
    return replace(model, dtype=torch.float32)


def wrong_dtype() -> str:
    """The error of a pass whose model says float32 and whose stages make float64."""
    model = replace(toy_model("actor", placement=[0, 1], columns=((0, 1),)), dtype=torch.float32)
    executor = Executor([model], timeout=5)
    problem = toy_problem({"actor": [0, 1]}, {"actor": 2})
    try:
        executor.run(make_program(problem, greedy(problem)), {"actor": Work(microbatches(2, seed=1), loss=toy_loss(1))})
    except Exception as error:
        return str(error)
    return ""


def clipped(*, scale: float) -> dict[str, Any]:
    """A fused pass and a step, the actor's loss multiplied: by model, its norm, this rank's squared norm of gradients
    and parameters."""
    job = Job(Layout(pp=2), names=list(COUNTS), arch=ARCH)
    batches = {name: replica_batches(count, seed=0, replica=0) for name, count in COUNTS.items()}
    actor = partial(policy_loss, total=20, tp_group=job.models["actor"].groups.tp)
    losses = {"actor": _scaled(actor, scale), "critic": partial(value_loss, total=20)}
    work = {name: Work(each, loss=losses[name]) for name, each in batches.items()}
    train_pass(job.executor, job.program(batches, method="fused"), work, models=job.models)
    seen: dict[str, Any] = {}
    for name, model in job.models.items():
        parameters = list(model.module.parameters())
        squared = sum(float(p.main_grad.double().square().sum()) for p in parameters)
        norm = model.step().grad_norm
        seen[name] = {"norm": norm, "squared": squared, "params": [p.detach().clone().numpy() for p in parameters]}
    return seen


def _scaled(loss: LossFunction, scale: float) -> LossFunction:
    def scaled(output: Tensor, microbatch: MicroBatch) -> Any:
        value, metrics = loss(output, microbatch)
        return value * scale, metrics

    return scaled


def forwards_in_training_mode() -> bool:
    """Whether two forwards of a model that trains are the same bits, the generators left where they are."""
    (microbatch,) = replica_batches(1, seed=0, replica=0)
    module = build_model(ARCH, build_groups(Layout()), seed=1).train()
    return torch.equal(whole_forward(module, microbatch), whole_forward(module, microbatch))

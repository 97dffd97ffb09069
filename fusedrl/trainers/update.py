"""PPO's update: each mini-batch is one fused pass of actor and critic, then a step of each optimizer.

    for epoch:  for mini-batch:  schedule -> F and B of both models, interleaved -> optimizer steps

Shapes: B samples of the step, N rows of a mini-batch, R response tokens.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fusedrl.config.budgets import Budget
from fusedrl.parallel.comm import all_gather_object
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.microbatch import MicroBatch, gather_microbatches
from fusedrl.pipeline.plan import Shapes
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.results import PassReport, gather_report
from fusedrl.pipeline.stage import LossFunction
from fusedrl.pipeline.tokens import planned_shapes
from fusedrl.pipeline.training import train_pass
from fusedrl.rl import batching
from fusedrl.trainers.cutting import replica_groups
from fusedrl.trainers.experience import Experience
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.ptx import joined
from fusedrl.trainers.roles import TrainedRole
from fusedrl.trainers.samples import Samples


class LossMaker(Protocol):
    """Makes a model's loss from the mini-batch's mask."""

    def __call__(self, mask_NR: Tensor) -> LossFunction: ...


@dataclass(frozen=True, eq=False)
class Learner:
    """A model in the update: its micro-batch size in samples, or a budget of tokens instead, and its loss.

    beside: by the number of a mini-batch in the step, further work of the same pass with a loss of its own (ptx.py).
    """

    role: TrainedRole
    micro_batch: int
    loss: LossMaker
    budget: Budget | None = None
    beside: Callable[[int], Work] | None = None


@dataclass(frozen=True, eq=False)
class Update:
    """What one mini-batch gave, the same on every rank: the program that ran, its report, and all metrics.

    schedule: figures of the plan, which may differ between runs that train alike.
    """

    program: Program
    report: PassReport
    metrics: dict[str, float]
    schedule: dict[str, float]


def mini_batches(samples: Samples, *, size: int, epochs: int, shuffle: bool, seed: int) -> Iterator[Tensor]:
    """Row indices of each optimizer step, epoch after epoch; the same on every rank."""
    total = samples.size
    batching.require_multiple(total, of=size, key="data.train_batch_size x rollout.n", of_key="ppo_mini_batch_size")
    for epoch in range(epochs):
        order_B = batching.shuffled(total, seed=seed, epoch=epoch) if shuffle else torch.arange(total)
        yield from order_B.split(size)


def shapes_ahead(
    learners: Mapping[str, Learner], samples: Samples, rows_N: Tensor, *, number: int = 0
) -> dict[str, Shapes]:
    """The shapes of this rank's micro-batches of a mini-batch: known with the samples, before there is experience."""

    def microbatches(learner: Learner) -> list[MicroBatch]:
        found = _microbatches(learner, samples, rows_N, fields={})
        return found if learner.beside is None else [*found, *learner.beside(number).microbatches]

    return {name: planned_shapes(each.role.pipeline.tokens, microbatches(each)) for name, each in learners.items()}


def update(
    learners: Mapping[str, Learner],
    experience: Experience,
    rows_N: Tensor,
    *,
    executor: Executor,
    planner: Planner,
    number: int = 0,
    measure_memory: bool = False,
) -> Update:
    """Train every learner on the rows of one mini-batch, number `number` of the step. A collective of all ranks."""
    work = {name: work_of(learner, experience, rows_N, number) for name, learner in learners.items()}
    program = planner.program({name: (learners[name].role, each) for name, each in work.items()})
    models = {name: learner.role.trained for name, learner in learners.items() if learner.role.held}
    result = train_pass(executor, program, work, models=models, measure_memory=measure_memory)
    report = gather_report(executor, program, result)
    planner.observe(report.timeline)
    metrics = {name: value for found in report.metrics.values() for name, value in found.items()}
    taken = {name: asdict(model.step()) for name, model in models.items()}
    for name, info in _told(taken, learners).items():
        metrics |= {
            f"{name}/grad_norm": info["grad_norm"],
            f"{name}/lr": info["lr"],
            f"{name}/skipped": float(not info["success"]),
        }
    return Update(program, report, metrics, planner.figures)


def _told(taken: Mapping[str, dict[str, Any]], learners: Mapping[str, Learner]) -> dict[str, dict[str, Any]]:
    """The steps that optimizers took, also of models that this rank holds no part of."""
    if all(learner.role.everywhere for learner in learners.values()):
        return dict(taken)
    everyone = all_gather_object(dict(taken))
    return {name: next(each[name] for each in everyone if name in each) for name in learners}


def work_of(learner: Learner, experience: Experience, rows_N: Tensor, number: int) -> Work:
    """What a learner does in the pass of a mini-batch, number `number` of the step."""
    mask_NR = experience.samples.mask_BR[rows_N]
    microbatches = _microbatches(learner, experience.samples, rows_N, fields=experience.fields())
    work = Work(microbatches, loss=learner.loss(mask_NR))
    return work if learner.beside is None else joined(work, learner.beside(number))


def _microbatches(
    learner: Learner, samples: Samples, rows_N: Tensor, *, fields: Mapping[str, Tensor]
) -> list[MicroBatch]:
    lengths_B, role = samples.lengths_B, learner.role
    groups = replica_groups(role, lengths_B[rows_N], micro_batch=learner.micro_batch, budget=learner.budget)
    groups = [rows_N[group] for group in groups]
    return gather_microbatches(samples.tokens_BS, lengths_B=lengths_B, groups=groups, fields=fields, device=role.device)

"""Jobs of pipeline tests: small plain torch stages, so that only the executor is under test.

A toy model is an embedding, `stages` blocks of (linear, tanh) in fp64, and a head; its parameters depend on (model,
stage) alone. Actor and critic lie on the ranks in opposite directions.

Shapes: B rows, T tokens, H hidden size.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.postponed import postpone
from fusedrl.pipeline.program import make_program
from fusedrl.pipeline.results import agree_shapes, gather_report, spread_outputs
from fusedrl.pipeline.stage import PipelineModel
from schedules.builders.greedy import greedy
from schedules.builders.serial import gpipe, serial_1f1b
from schedules.builders.zero_bubble import zero_bubble
from schedules.problem import Model, Problem
from tests.fusedrl.pipeline.orders import random_order

HIDDEN, VOCAB = 6, 11
BUILDERS = {
    "serial": serial_1f1b,
    "greedy": greedy,
    "gpipe": gpipe,
    "random1": partial(random_order, seed=1),
    "random2": partial(random_order, seed=2),
}
SPLITTING = {"split_greedy": greedy, "zero_bubble": zero_bubble, "split_random": partial(random_order, seed=3)}


class LateLinear(nn.Linear):
    """Puts its weight's gradient off in a split backward."""

    def forward(self, input: Tensor) -> Tensor:
        return _Product.apply(input, self.weight) + self.bias


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]
        x, weight = ctx.saved_tensors

        def of_weight() -> Tensor:
            return gradient.flatten(0, 1).t() @ x.flatten(0, 1)

        return gradient @ weight, None if postpone(of_weight, parameter=weight) else of_weight()


class ToyStage(nn.Module):
    def __init__(self, *, model: str, stage: int, stages: int) -> None:
        super().__init__()
        torch.manual_seed(1000 * len(model) + ord(model[0]) + stage)
        self.first, self.last = stage == 0, stage == stages - 1
        self.embedding = nn.Embedding(VOCAB, HIDDEN, dtype=torch.float64) if self.first else None
        self.block = LateLinear(HIDDEN, HIDDEN, dtype=torch.float64)
        self.head = nn.Linear(HIDDEN, 1, dtype=torch.float64) if self.last else None

    def forward(self, microbatch: MicroBatch, received: Tensor | None) -> Tensor:
        hidden = self.embedding(microbatch.tokens_BT) if self.embedding is not None else received
        hidden = torch.tanh(self.block(hidden))
        return hidden if self.head is None else self.head(hidden)[..., 0]


def toy_shape(microbatch: MicroBatch) -> tuple[int, ...]:
    return (*microbatch.shape, HIDDEN)


def toy_model(
    name: str,
    *,
    placement: Sequence[int],
    columns: tuple[tuple[int, ...], ...],
    stages: Mapping[int, Any] | None = None,
) -> PipelineModel:
    column = next(ranks.index(dist.get_rank()) for ranks in columns if dist.get_rank() in ranks)
    held = [stage for stage, place in enumerate(placement) if place == column]
    made = {stage: ToyStage(model=name, stage=stage, stages=len(placement)) for stage in held}
    return PipelineModel(
        name=name,
        placement=tuple(placement),
        columns=columns,
        stages=made if stages is None else stages,
        message_shape=toy_shape,
        dtype=torch.float64,
        modules=tuple(made.values()),
        splits=True,
    )


def microbatches(count: int, *, seed: int, replica: int = 0) -> list[MicroBatch]:
    """Ragged in rows and in length; replicas of data parallelism get other data."""
    generator = torch.Generator().manual_seed(7919 * seed + replica)
    shapes = [(1 + (i + replica) % 3, 2 + (3 * i + seed) % 5) for i in range(count)]
    return [MicroBatch(torch.randint(VOCAB, shape, generator=generator)) for shape in shapes]


def toy_loss(total: int) -> Any:
    def loss(output_BT: Tensor, microbatch: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
        value = (output_BT - microbatch.tokens_BT / VOCAB).square().sum() / total
        return value, {"loss": value, "tokens": torch.tensor(float(output_BT.numel()))}

    return loss


def toy_problem(
    placements: Mapping[str, Sequence[int]],
    counts: Mapping[str, int],
    *,
    forward_only: Sequence[str] = (),
    split: bool = False,
) -> Problem:
    models = [
        Model(
            name=name,
            placement=tuple(placement),
            microbatches=counts[name],
            forward=1.0 if name == "actor" else 0.6,
            backward=None if name in forward_only else (2.0 if name == "actor" else 1.3),
            backward_weight=0.7 if split and name not in forward_only else None,
            activation=1.0,
        )
        for name, placement in placements.items()
    ]
    ranks = 1 + max(max(placement) for placement in placements.values())
    return Problem(ranks=ranks, models=tuple(models))


def one_column_each(world: int) -> tuple[tuple[int, ...], ...]:
    return (tuple(range(world)),)


def toy_placements(kind: str, world: int) -> dict[str, list[int]]:
    line = list(range(world))
    return {
        "opposed": {"actor": line, "critic": line[::-1]},
        "single": {"actor": line},
        "interleaved": {"actor": line + line, "critic": line[::-1]},
        "v": {"actor": line + line[::-1], "critic": line[::-1] + line},
    }[kind]


@dataclass(frozen=True)
class Lie:
    """How toy models lie: on their own columns, the world ranks of these, and in a program."""

    placements: dict[str, list[int]]
    columns: dict[str, tuple[tuple[int, ...], ...]]
    in_program: dict[str, list[int]]


def toy_lie(kind: str, world: int) -> Lie:
    """One of toy_placements, or "copies": two critics of half as many stages on the ranks of one actor."""
    line = list(range(world))
    if kind != "copies":
        placements = toy_placements(kind, world)
        return Lie(placements, dict.fromkeys(placements, one_column_each(world)), placements)
    pairs = [line[first::2] for first in range(2)]
    return Lie(
        placements={"actor": line, "critic": line[: world // 2]},
        columns={"actor": (tuple(line),), "critic": tuple(map(tuple, pairs))},
        in_program={"actor": line, "critic0": pairs[0], "critic1": pairs[1]},
    )


def run_toy(
    *, kind: str, builder: str, passes: Sequence[Mapping[str, int]], depth: int | None = None
) -> dict[str, Any]:
    """Passes with given micro-batch counts, one SGD step after each; gradients, parameters, metrics of this rank.

    depth: run all stages of a `depth`-column job on this one rank, as the reference.
    """
    world = dist.get_world_size()
    placements = toy_placements(kind, depth or world)
    if depth:
        placements = {name: [0] * len(placement) for name, placement in placements.items()}
    models = [toy_model(name, placement=p, columns=one_column_each(world)) for name, p in placements.items()]
    executor = Executor(models, timeout=20)
    seen: dict[str, Any] = {}
    for number, counts in enumerate(passes):
        problem = toy_problem(placements, counts, split=builder in SPLITTING)
        program = make_program(problem, (BUILDERS | SPLITTING)[builder](problem))
        work = {}
        for name in placements:
            data = microbatches(counts[name], seed=number)
            work[name] = Work(data, loss=toy_loss(sum(m.tokens_BT.numel() for m in data)))
        result = executor.run(program, work)
        for model in models:
            seen[f"{number}/{model.name}/sums"] = result.models[model.name].sums()
            seen |= toy_step(model, number=number)
    return seen


def toy_step(model: PipelineModel, *, number: int) -> dict[str, Any]:
    seen = {}
    for stage, module in model.stages.items():
        for key, parameter in module.named_parameters():  # type: ignore[attr-defined]
            seen[f"{number}/{model.name}/{stage}/{key}/grad"] = parameter.grad.clone().numpy()
            parameter.data -= 0.1 * parameter.grad
            parameter.grad = None
            seen[f"{number}/{model.name}/{stage}/{key}"] = parameter.data.clone().numpy()
    return seen


def infer_toy(*, builder: str, counts: Mapping[str, int]) -> dict[str, Any]:
    """The critic forward-only beside a training actor; checks modes, graphs and where results are."""
    world = dist.get_world_size()
    placements = toy_placements("opposed", world)
    models = [toy_model(name, placement=p, columns=one_column_each(world)) for name, p in placements.items()]
    executor = Executor(models, timeout=20)
    problem = toy_problem(placements, counts, forward_only=["critic"])
    modes: list[tuple[bool, bool]] = []

    def collect(output_BT: Tensor, microbatch: MicroBatch) -> Any:
        modes.append((output_BT.requires_grad, models[1].modules[0].training))
        return output_BT.numpy()

    data = {name: microbatches(counts[name], seed=3) for name in placements}
    work = {"actor": Work(data["actor"], loss=toy_loss(1)), "critic": Work(data["critic"], collect=collect)}
    result = executor.run(make_program(problem, BUILDERS[builder](problem)), work)
    grads = [p.grad is None for p in models[1].modules[0].parameters()]
    return {
        "outputs": result.models["critic"].outputs,
        "modes": modes,
        "no_grads": all(grads),
        "training_after": models[1].modules[0].training,
    }


def whole_critic(*, stages: int, count: int) -> list[Any]:
    """What infer_toy's critic must give, without a pipeline."""
    modules = [ToyStage(model="critic", stage=stage, stages=stages) for stage in range(stages)]
    outputs = []
    for microbatch in microbatches(count, seed=3):
        hidden = None
        for module in modules:
            hidden = module(microbatch, hidden)
        outputs.append(hidden.detach().numpy())
    return outputs


def report_toy(*, counts: Mapping[str, int]) -> dict[str, Any]:
    """Two replicas of a two-column job (4 ranks): an actor that trains and a critic whose outputs are collected."""
    rank = dist.get_rank()
    columns = ((0, 2), (1, 3))
    placements = toy_placements("opposed", 2)
    executor = Executor([toy_model(name, placement=p, columns=columns) for name, p in placements.items()], timeout=20)
    problem = toy_problem(placements, counts, forward_only=["critic"])
    program = make_program(problem, greedy(problem))
    data = {name: microbatches(counts[name], seed=5, replica=rank % 2) for name in placements}

    def collect(output_BT: Tensor, microbatch: MicroBatch) -> dict[str, Tensor]:
        return {"values": output_BT.to(torch.float32), "lengths": microbatch.position_ids_BT()[:, -1]}

    work = {"actor": Work(data["actor"], loss=toy_loss(1)), "critic": Work(data["critic"], collect=collect)}
    result = executor.run(program, work)
    report = gather_report(executor, program, result)
    spread = spread_outputs(executor, result, model="critic")
    return {
        "metrics": report.metrics,
        "local": result.models["actor"].sums(),
        "bubbles": (report.planned_bubble, report.replayed_bubble, report.measured_bubble),
        "ops": [[str(timed.op) for timed in row] for row in report.timeline.ranks],
        "expected_ops": [[str(op) for op in program.order.rows[column]] for column in (0, 0, 1, 1)],
        "spread": [{name: value.numpy() for name, value in each.items()} for each in spread],
        "shapes": [m.shape for m in data["critic"]],
    }


def agree_toy(*, uneven: bool) -> Any:
    rank = dist.get_rank()
    shapes = {"actor": [(2, 3 + rank), (1, 5)], "critic": [(4, 4)] * (1 + (rank if uneven else 0))}
    try:
        return agree_shapes(shapes)
    except ValueError as error:
        return str(error)


def overhead_toy(*, count: int, repeats: int) -> float:
    """Seconds an op costs beyond its stage, the best of some passes; one model, one rank, a stage that does nothing."""
    weight = torch.ones(1, requires_grad=True)
    model = PipelineModel(
        name="actor",
        placement=(0,),
        columns=((0,),),
        stages={0: lambda microbatch, received: weight},
        message_shape=toy_shape,
    )
    executor = Executor([model])
    problem = toy_problem({"actor": [0]}, {"actor": count})
    program = make_program(problem, serial_1f1b(problem))
    work = {"actor": Work([MicroBatch(torch.zeros(1, 1, dtype=torch.long))] * count, loss=lambda o, m: (o.sum(), {}))}
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        executor.run(program, work)
        seconds.append(time.perf_counter() - begin)
    return min(seconds) / (2 * count)

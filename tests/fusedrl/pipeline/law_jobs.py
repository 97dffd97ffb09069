"""Jobs of the law's tests: an actor and a critic on Megatron-Core stages, two training passes in one order or another.

The global batch is the same in every layout: replica r of `replicas` gets its own micro-batches, and a run with dp=1
takes those of all replicas, one after the other. Lengths and rows are ragged between micro-batches and replicas.

Shapes: B rows, T tokens, V this rank's part of the vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.models.architecture import Architecture
from fusedrl.models.build import build_model
from fusedrl.models.experts import Experts
from fusedrl.models.fill import rules_of
from fusedrl.models.logprob import token_log_probs
from fusedrl.models.options import PLAIN, StageOptions
from fusedrl.models.stages import build_stages, stages_of
from fusedrl.models.training import OptimizerSettings, TrainableModel
from fusedrl.models.weights import from_locals
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.megatron_stage import megatron_model
from fusedrl.pipeline.microbatch import MicroBatch, shapes_of
from fusedrl.pipeline.plan import Planned, make_problem, may_split, order_by, plan_pass
from fusedrl.pipeline.program import Program, make_program
from fusedrl.pipeline.results import agree_shapes, gather_report, spread_outputs
from fusedrl.pipeline.stage import LossFunction
from fusedrl.pipeline.tokens import TokenForm, WholeRows, next_tokens
from fusedrl.pipeline.training import train_pass
from tests.fusedrl.pipeline.orders import random_order

ARCH = Architecture(
    family="qwen2",
    hidden_size=16,
    num_layers=4,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    ffn_hidden_size=24,
    vocab_size=200,  # both tensor-parallel halves of the padded 256 hold real tokens
    qkv_bias=True,
    initializer_range=0.2,
)
EXPERTS = Experts(count=4, per_token=2, ffn_hidden_size=12, dense_layers=(1,))
WHOLE = WholeRows()
Passes = Sequence[Mapping[str, int]]


class Job:
    """The models on this rank, and their executor. shape: how their stages lie on the columns.

    others: the layouts of models that do not have `layout`.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        names: Sequence[str],
        arch: Architecture,
        shape: str = "line",
        distributed_optimizer: bool = False,
        options: StageOptions = PLAIN,
        dtype: torch.dtype = torch.float32,
        overlap: bool = False,
        gather: bool = False,
        others: Mapping[str, Layout] | None = None,
    ) -> None:
        self.layouts, self.shape = {name: (others or {}).get(name, layout) for name in names}, shape
        self.dp_i = layout.coords(dist.get_rank())[1]
        made: dict[str, Any] = {"arch": arch, "shape": shape, "options": options, "dtype": dtype, "overlap": overlap}
        made["gather"] = gather
        made["distributed_optimizer"] = distributed_optimizer
        self.models = {name: _trainable(name, each, **made) for name, each in self.layouts.items()}
        place = {"rank": dist.get_rank(), "placement": shape}
        stages = [
            megatron_model(n, m.module, layout=self.layouts[n], reverse=n == "critic", **place)
            for n, m in self.models.items()
        ]
        self.executor = Executor(stages, timeout=30)

    def program(self, batches: Mapping[str, Sequence[MicroBatch]], *, method: str) -> Program:
        shapes = agree_shapes({name: shapes_of(each) for name, each in batches.items()})
        drawn = method.startswith(("random", "split", "mixed"))
        planned = [
            Planned(n, shapes[n], **asdict(each), reverse=n == "critic", shape=self.shape)
            for n, each in self.layouts.items()
        ]
        problem = make_problem(planned, split=method.startswith(("split", "mixed")) if drawn else may_split(method))
        if not drawn:
            return make_program(problem, order_by(problem, method))
        order = random_order(problem, seed=int(method[-1]), whole=(1, 2) if method.startswith("mixed") else ())
        return make_program(problem, order)


def _trainable(
    name: str,
    layout: Layout,
    *,
    arch: Architecture,
    shape: str,
    distributed_optimizer: bool,
    options: StageOptions,
    dtype: torch.dtype,
    overlap: bool,
    gather: bool,
) -> TrainableModel:
    reverse, head = name == "critic", "value" if name == "critic" else "lm"
    columns = place_stages(layout.pp, shape=shape, reverse=reverse)
    groups = build_groups(layout, reverse_pipeline=reverse, placement=columns)
    place: dict[str, Any] = {"placement": shape, "reverse": reverse, "head": head, "dtype": dtype}
    module = build_stages(arch, groups, seed=len(name), options=options, **place)
    for stage in stages_of(module):
        if head == "value" and stage.post_process:  # it starts at zero, and would pass no gradient on
            stage.output_layer.weight.data.copy_(torch.linspace(-1, 1, arch.hidden_size)[None])
    reduce = {"use_distributed_optimizer": distributed_optimizer, "overlap_grad_reduce": overlap}
    # a large eps: Adam's step for a gradient of rounding errors would else be as large as any, and compare nothing
    settings = OptimizerSettings(lr=1e-3, eps=1e-4, clip_grad=0.5, overlap_param_gather=gather, **reduce)
    return TrainableModel(module, groups=groups, settings=settings, name=name)


def replica_batches(count: int, *, seed: int, replica: int) -> list[MicroBatch]:
    generator = torch.Generator().manual_seed(7919 * seed + 31 * replica)
    batches = []
    for i in range(count):
        rows, length = 1 + (i + replica) % 3, 4 + (3 * i + 2 * replica + seed) % 6
        lengths_B = torch.randint(2, length + 1, (rows,), generator=generator)
        tokens_BT = torch.randint(ARCH.vocab_size, (rows, length), generator=generator)
        targets_BT = torch.randn(rows, length, generator=generator)
        fields = {"lengths": lengths_B, "targets": targets_BT}
        batches.append(MicroBatch(tokens_BT, fields, tuple(lengths_B.tolist())))
    return batches


def valid_BT(microbatch: MicroBatch) -> Tensor:
    """Positions whose next token exists."""
    return microbatch.position_ids_BT() < microbatch["lengths"][:, None] - 1


def policy_loss(
    logits: Tensor, microbatch: MicroBatch, *, total: int, tp_group: dist.ProcessGroup, tokens: TokenForm = WHOLE
) -> tuple[Tensor, dict[str, Tensor]]:
    logp = token_log_probs(logits, next_tokens(tokens, microbatch), tp_group=tp_group, vocab_size=ARCH.vocab_size)
    logp_BT = tokens.spread(logp, microbatch)
    weights_BT = microbatch["targets"] * valid_BT(microbatch)
    loss = -(logp_BT * weights_BT).sum() / total
    return loss, {"loss": loss, "tokens": valid_BT(microbatch).sum()}


def value_loss(
    values: Tensor, microbatch: MicroBatch, *, total: int, tokens: TokenForm = WHOLE
) -> tuple[Tensor, dict[str, Tensor]]:
    values_BT = tokens.spread(values[..., 0], microbatch)
    error_BT = (values_BT - microbatch["targets"]) * valid_BT(microbatch)
    loss = 0.5 * error_BT.square().sum() / total
    return loss, {"loss": loss, "tokens": valid_BT(microbatch).sum()}


def run_law(
    *,
    layout: tuple[int, ...],
    method: str,
    passes: Passes,
    replicas: int = 1,
    distributed_optimizer: bool = False,
    tied: bool = False,
    shape: str = "line",
    num_layers: int = 4,
    options: StageOptions = PLAIN,
    overlap: bool = False,
    critic: tuple[int, int, int] | None = None,
    experts: bool = False,
) -> dict[str, Any]:
    """What this rank holds after each pass, as arrays; keys are "PASS/MODEL/WHAT/NAME".

    layout: (tp, pp, dp), or (tp, pp, dp, cp); critic: that of the critic where it has another. method: one of a
    schedule, random (whole backwards), split or mixed with a seed, or plain.
    passes: micro-batches of each model; the critic has the value head, any other name a language model's.
    """
    names = list(passes[0])
    kind = {"family": "qwen3_moe", "qkv_bias": False, "experts": EXPERTS} if experts else {}
    arch = replace(ARCH, tied=tied, num_layers=num_layers, **kind)
    made: dict[str, Any] = {"distributed_optimizer": distributed_optimizer, "options": options, "overlap": overlap}
    others = {} if critic is None else {"critic": Layout(*critic)}
    job = Job(Layout(*layout), names=names, arch=arch, shape=shape, others=others, **made)
    seen: dict[str, Any] = {}
    for number, counts in enumerate(passes):
        everything = {
            name: [replica_batches(counts[name], seed=number, replica=r) for r in range(replicas)] for name in names
        }
        mine = {name: _share(each, job.layouts[name]) for name, each in everything.items()}
        totals = {n: sum(int(valid_BT(m).sum()) for part in each for m in part) for n, each in everything.items()}
        work = {name: Work(mine[name], loss=_loss(name, job, totals[name])) for name in names}
        if method == "plain":
            metrics = {name: _train_plainly(model, work[name]) for name, model in job.models.items()}
        else:
            result = train_pass(job.executor, program := job.program(mine, method=method), work, models=job.models)
            metrics = gather_report(job.executor, program, result).metrics
        for name, model in job.models.items():
            seen |= _after_pass(model, f"{number}/{name}", whole_gradients=not distributed_optimizer)
            seen |= {f"{number}/{name}/metric/{key}": value for key, value in metrics[name].items()}
    return seen


def _loss(name: str, job: Job, total: int) -> LossFunction:
    tokens = job.executor.models[name].tokens
    if name == "critic":
        return partial(value_loss, total=total, tokens=tokens)
    return partial(policy_loss, total=total, tp_group=job.models[name].groups.tp, tokens=tokens)


def _train_plainly(model: TrainableModel, work: Work) -> dict[str, float]:
    """The reference on one rank, without stages, messages or executor: one model after the other, a plain loop."""
    model.zero_grad()
    sums: dict[str, float] = {}
    assert work.loss is not None
    for microbatch in work.microbatches:
        output = whole_forward(model.module, microbatch)
        loss, metrics = work.loss(output, microbatch)
        loss.backward()
        for key, value in metrics.items():
            sums[key] = sums.get(key, 0.0) + float(value)
    model.finalize_grads()
    return sums


def _share(parts: Sequence[Sequence[MicroBatch]], layout: Layout) -> list[MicroBatch]:
    """This replica's micro-batches; all of them where there is one replica."""
    dp_i = layout.coords(dist.get_rank())[1]
    return list(parts[dp_i]) if layout.dp > 1 else [each for part in parts for each in part]


def _after_pass(model: TrainableModel, key: str, *, whole_gradients: bool) -> dict[str, Any]:
    """Gradients before the step; norm, parameters and optimizer state after it."""
    parameters = list(model.module.parameters())
    gradients = [p.main_grad.clone() for p in parameters]
    seen = {f"{key}/grad/{i}": gradient.numpy() for i, gradient in enumerate(gradients)}
    if whole_gradients:
        seen |= _whole(model, gradients, key=f"{key}/whole_grad")
    info = model.step()
    seen |= {f"{key}/norm": info.grad_norm, f"{key}/success": info.success}
    seen |= {f"{key}/param/{i}": p.detach().clone().numpy() for i, p in enumerate(parameters)}
    seen |= {f"{key}/optimizer/{name}": value for name, value in _arrays(model.optimizer.state_dict())}
    return seen | _whole(model, [p.detach() for p in parameters], key=f"{key}/whole")


def _whole(model: TrainableModel, values: Sequence[Tensor], *, key: str) -> dict[str, np.ndarray]:
    """Values shaped like this rank's parameters, put together over tensor-parallel ranks, by Hugging Face name."""
    group, seen = model.groups.tp, {}
    rules = [rule for stage in model.stages for rule in rules_of(stage)]
    for rule, value in zip(rules, values, strict=True):
        shards = [torch.empty_like(value) for _ in range(group.size())]
        dist.all_gather(shards, value.contiguous(), group=group)
        whole = from_locals(rule.kind, shards, arch=model.stages[0].arch)
        seen |= {f"{key}/{name}": each.clone().numpy() for name, each in zip(rule.sources, whole, strict=True)}
    return seen


def _arrays(state: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """All tensors and numbers of a nested state, by path."""
    if isinstance(state, Tensor):
        return [(prefix, state.detach().clone().numpy())]
    if isinstance(state, Mapping):
        return [pair for key in state for pair in _arrays(state[key], f"{prefix}/{key}")]
    if isinstance(state, list | tuple):
        return [pair for i, each in enumerate(state) for pair in _arrays(each, f"{prefix}/{i}")]
    return [(prefix, state)] if isinstance(state, int | float) else []


ROLES = {"actor": ("lm", False), "reference": ("lm", False), "critic": ("value", True)}  # head, reversed


def run_inference(*, layout: tuple[int, int, int], method: str) -> dict[str, list[np.ndarray]]:
    """Log-probabilities of two models and values of a third in one forward-only pass, on every rank."""
    plan, counts = Layout(*layout), {"actor": 3, "reference": 2, "critic": 4}
    modules, groups = {}, {}
    for name, (head, reverse) in ROLES.items():
        groups[name] = build_groups(plan, reverse_pipeline=reverse)
        modules[name] = build_model(ARCH, groups[name], head=head, seed=len(name))  # type: ignore[arg-type]
        if head == "value" and modules[name].post_process:
            modules[name].output_layer.weight.data.copy_(torch.linspace(-1, 1, ARCH.hidden_size)[None])
    batches = {name: replica_batches(count, seed=len(name), replica=0) for name, count in counts.items()}
    collect = {name: partial(_score, head=ROLES[name][0], tp_group=groups[name].tp) for name in ROLES}
    if method == "plain":
        with torch.no_grad():
            return {n: [collect[n](whole_forward(modules[n], m), m).numpy() for m in batches[n]] for n in ROLES}
    executor = Executor(
        [megatron_model(n, m, layout=plan, rank=dist.get_rank(), reverse=ROLES[n][1]) for n, m in modules.items()]
    )
    planned = [
        Planned(n, shapes_of(batches[n]), pp=plan.pp, tp=plan.tp, reverse=ROLES[n][1], trains=False) for n in ROLES
    ]
    result = executor.run(plan_pass(planned, method=method), {n: Work(batches[n], collect=collect[n]) for n in ROLES})
    return {name: [each.numpy() for each in spread_outputs(executor, result, model=name)] for name in ROLES}


def _score(output: Tensor, microbatch: MicroBatch, *, head: str, tp_group: dist.ProcessGroup) -> Tensor:
    if head == "value":
        return output[..., 0]
    targets_BT = microbatch.tokens_BT.roll(-1, dims=1)
    return token_log_probs(output, targets_BT, tp_group=tp_group, vocab_size=ARCH.vocab_size)


def whole_forward(module: Any, microbatch: MicroBatch) -> Tensor:
    """A model on one rank, called directly."""
    mask = torch.tril(torch.ones(1, 1, microbatch.length, microbatch.length)) < 0.5
    return module(microbatch.tokens_BT, torch.arange(microbatch.length).repeat(microbatch.rows, 1), mask)

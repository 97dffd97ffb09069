"""An actor and a critic on one rank, trained by the real executor: what the GPU check runs.

Both models have two stages on the rank (a V of one column), so that activations, gradients and orders pass between
stages although there is one device. With two ranks (pp = 2) each holds both ends, and messages travel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.models.architecture import Architecture
from fusedrl.models.implementation import AUTO, Implementation
from fusedrl.models.logprob import token_log_probs
from fusedrl.models.stages import build_stages, stages_of
from fusedrl.models.training import OptimizerSettings, TrainableModel
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.pipeline.costs import CountedCost
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.megatron_stage import megatron_model
from fusedrl.pipeline.microbatch import MicroBatch, shapes_of
from fusedrl.pipeline.plan import Planned
from fusedrl.pipeline.stage import Metrics

NAMES: tuple[Literal["actor"], Literal["critic"]] = ("actor", "critic")
SHAPE = "v"
Batches = dict[str, list[MicroBatch]]


@dataclass(frozen=True, eq=False)
class Pair:
    """Both models on this rank, and what runs them."""

    arch: Architecture
    layout: Layout
    dtype: torch.dtype
    models: dict[str, TrainableModel]
    executor: Executor

    @property
    def device(self) -> torch.device:
        return next(self.models["actor"].module.parameters()).device

    def planned(self, batches: Batches) -> list[Planned]:
        """The work of a pass; the same shapes on all ranks."""
        return [
            Planned(name, shapes_of(batches[name]), pp=self.layout.pp, reverse=_reverse(name), shape=SHAPE, cost=cost)
            for name, cost in self.costs().items()
        ]

    def costs(self) -> dict[str, CountedCost]:
        stages = 2 * self.layout.pp
        layers = [self.arch.num_layers // stages] * stages
        return {
            name: CountedCost(self.arch, layers, head=_head(name), bytes_each=self.dtype.itemsize) for name in NAMES
        }

    def work(self, batches: Batches) -> dict[str, Work]:
        total = {name: sum(each.tokens_BT.numel() for each in batches[name]) for name in NAMES}
        policy = partial(_policy_loss, total=total["actor"], vocab_size=self.arch.vocab_size)
        return {
            "actor": Work(batches["actor"], loss=policy),
            "critic": Work(batches["critic"], loss=partial(_value_loss, total=total["critic"])),
        }


def make_pair(
    arch: Architecture, *, dtype: torch.dtype, splits: bool = True, implementation: Implementation = AUTO, seed: int = 1
) -> Pair:
    """Both models on all ranks of the world as pipeline columns. A collective of all ranks."""
    layout = Layout(pp=dist.get_world_size())
    models: dict[str, TrainableModel] = {}
    for name in NAMES:
        columns = place_stages(layout.pp, shape=SHAPE, reverse=_reverse(name))
        groups = build_groups(layout, reverse_pipeline=_reverse(name), placement=columns)
        place: dict[str, Any] = {"placement": SHAPE, "reverse": _reverse(name)}
        module = build_stages(
            arch,
            groups,
            head=_head(name),
            dtype=dtype,
            seed=seed,
            delay_weight_gradients=splits,
            implementation=implementation,
            **place,
        )
        for stage in stages_of(module):
            if _head(name) == "value" and stage.post_process:  # it starts at zero, and would pass no gradient on
                stage.output_layer.weight.data.copy_(torch.linspace(-1, 1, arch.hidden_size)[None])
        settings = OptimizerSettings(lr=1e-3, clip_grad=1.0)
        models[name] = TrainableModel(module, groups=groups, settings=settings, name=name)
    stages = [
        megatron_model(name, each.module, layout=layout, rank=dist.get_rank(), placement=SHAPE, reverse=_reverse(name))
        for name, each in models.items()
    ]
    return Pair(arch, layout, dtype, models, Executor(stages, timeout=60))


def draw_batches(
    arch: Architecture, *, rows: Sequence[int], length: int, device: torch.device, seed: int = 0
) -> Batches:
    """A micro-batch of random tokens for each entry of `rows`, for both models; the same on every machine."""
    generator = torch.Generator().manual_seed(seed)

    def draw(count: int) -> MicroBatch:
        tokens_BT = torch.randint(arch.vocab_size, (count, length), generator=generator)
        return MicroBatch(tokens_BT.to(device), {"targets": torch.randn(count, length, generator=generator).to(device)})

    return {name: [draw(count) for count in rows] for name in NAMES}


def _reverse(name: str) -> bool:
    return name == "critic"


def _head(name: str) -> Literal["lm", "value"]:
    return "value" if name == "critic" else "lm"


def _policy_loss(logits_BTV: Tensor, microbatch: MicroBatch, *, total: int, vocab_size: int) -> tuple[Tensor, Metrics]:
    following_BT = microbatch.tokens_BT.roll(-1, dims=1)
    logp_BT = token_log_probs(logits_BTV, following_BT, tp_group=None, vocab_size=vocab_size)
    loss = -logp_BT.sum() / total
    return loss, {"loss": loss}


def _value_loss(values_BT1: Tensor, microbatch: MicroBatch, *, total: int) -> tuple[Tensor, Metrics]:
    loss = 0.5 * (values_BT1[..., 0].float() - microbatch["targets"]).square().sum() / total
    return loss, {"loss": loss}

"""The models of a job on this rank: actor, critic, reference, reward, and the actor's copy that generates.

    actor    trained, stage 0 on pipeline column 0          reference, reward   frozen, forward only
    critic   trained, pipeline reversed: stage 0 on the last column

Each has a layout, the ranks that it lies on, process groups and a Megatron configuration object of its own, and starts
from a Hugging Face folder. Every rank of the job calls these functions in the same sequence, also for roles that it
holds no part of: they make process groups.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fusedrl.config.check_layout import stage_layers
from fusedrl.config.ranks import parse_ranks, text_of
from fusedrl.config.schema import MegatronConfig, OptimConfig
from fusedrl.models.architecture import Architecture
from fusedrl.models.hf_import import load_hf
from fusedrl.models.implementation import AUTO, Implementation
from fusedrl.models.options import PLAIN, Recompute, StageOptions
from fusedrl.models.stages import build_stages
from fusedrl.models.training import OptimizerSettings, TrainableModel
from fusedrl.parallel.groups import ProcessGroupCollection, build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.parallel.team import current, whole
from fusedrl.pipeline.executor import Executor
from fusedrl.pipeline.megatron_stage import absent_model, megatron_model
from fusedrl.pipeline.stage import PipelineModel
from fusedrl.rl.batching import require_multiple

Head = Literal["lm", "value"]
READS = "_inference"  # behind the name of a role: its copy that reads samples (reading.py)


def implementation_of(megatron: MegatronConfig) -> Implementation:
    """The configuration's keys that choose libraries."""
    return Implementation(
        transformer_impl=megatron.transformer_impl,
        attention_backend=megatron.attention_backend,
        gradient_accumulation_fusion=megatron.gradient_accumulation_fusion,
    )


def stage_options(megatron: MegatronConfig) -> StageOptions:
    """The configuration's keys that choose how stages are built."""
    again: Recompute | None = None
    if (granularity := megatron.recompute_granularity) is not None:
        again = Recompute(granularity, megatron.recompute_method, megatron.recompute_num_layers)  # type: ignore[arg-type]
    shared, packed = megatron.sequence_parallel, megatron.use_remove_padding
    return StageOptions(again, stage_layers(megatron), shared, packed)


@dataclass(frozen=True)
class RoleSpec:
    """What a role is made of. `key`: where its layout stands in the configuration, named in errors.

    placement: how its stages lie on the pipeline ranks (fusedrl.parallel.placement). splits: built for orders that
    split backwards. implementation: whose layers it is made of. options: how its stages are built.
    overlap_grad_reduce, overlap_param_gather: of a role that learns. ranks: of the job, where the layout lies.
    """

    name: str
    key: str
    folder: str
    layout: Layout
    dtype: torch.dtype
    head: Head = "lm"
    reverse: bool = False
    placement: str = "line"
    splits: bool = False
    implementation: Implementation = AUTO
    options: StageOptions = PLAIN
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    ranks: tuple[int, ...] = field(default_factory=lambda: current().ranks)

    @staticmethod
    def of(
        name: str,
        megatron: MegatronConfig,
        *,
        key: str,
        folder: str,
        head: Head = "lm",
        reverse: bool = False,
        placement: str = "line",
        splits: bool = False,
    ) -> "RoleSpec":
        """From the configuration of a layout; the data-parallel size is what is left of its ranks."""
        tp, pp = megatron.tensor_model_parallel_size, megatron.pipeline_model_parallel_size
        ranks = placed_ranks(text_of(megatron), key=f"{key}.ranks")
        layout = Layout.for_world(len(ranks), tp=tp, pp=pp, cp=megatron.context_parallel_size, key=key)
        dtype, implementation = getattr(torch, megatron.dtype), implementation_of(megatron)
        built = implementation, stage_options(megatron)
        overlaps = megatron.overlap_grad_reduce, megatron.overlap_param_gather
        return RoleSpec(name, key, folder, layout, dtype, head, reverse, placement, splits, *built, *overlaps, ranks)


def placed_ranks(text: str | None, *, key: str) -> tuple[int, ...]:
    """The ranks that a configuration names; all of the current team where it names none."""
    return current().ranks if text is None else parse_ranks(text, world=whole().size, key=key)


@dataclass(frozen=True, eq=False)
class Role:
    """A model of the job on this rank: its stages (fusedrl.models.stages), its groups, how the pipeline sees it.

    Where this rank holds no part of it there are no stages, and the groups are None.
    """

    spec: RoleSpec
    architecture: Architecture
    groups: ProcessGroupCollection
    module: nn.Module
    pipeline: PipelineModel

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def layout(self) -> Layout:
        return self.spec.layout

    @property
    def held(self) -> bool:
        """Whether this rank holds a part of it."""
        return dist.get_rank() in self.spec.ranks

    @property
    def everywhere(self) -> bool:
        """Whether all ranks of the current team do."""
        return self.spec.ranks == current().ranks

    @property
    def vocab_size(self) -> int:
        """The real vocabulary; logits are padded beyond it."""
        return self.architecture.vocab_size

    @property
    def device(self) -> torch.device:
        return self.pipeline.device

    def share(self, size: int) -> Tensor:
        """Rows of `size` that this rank's replica works on, a contiguous part; the same on all ranks of a replica."""
        replicas = self.layout.dp
        require_multiple(size, of=replicas, key="samples", of_key=f"the data-parallel size of {self.name}")
        each, first = size // replicas, self.groups.dp.rank() * (size // replicas)
        return torch.arange(first, first + each)


@dataclass(frozen=True, eq=False)
class TrainedRole(Role):
    """A role with an optimizer."""

    learning: TrainableModel | None

    @property
    def trained(self) -> TrainableModel:
        """What trains it, on ranks that hold a part of it."""
        assert self.learning is not None, f"this rank holds no part of {self.name}"
        return self.learning


def build_role(spec: RoleSpec, *, seed: int, timeout_s: float) -> Role:
    """A frozen role, its weights read from its folder. A collective of the whole job."""
    architecture = Architecture.from_folder(spec.folder)
    groups = build_groups(
        spec.layout,
        reverse_pipeline=spec.reverse,
        placement=place_stages(spec.layout.pp, shape=spec.placement, reverse=spec.reverse),
        timeout=timedelta(seconds=timeout_s),
        key=spec.key,
        ranks=spec.ranks,
    )
    place: dict[str, Any] = {"placement": spec.placement, "reverse": spec.reverse}
    if dist.get_rank() not in spec.ranks:
        absent = absent_model(spec.name, layout=spec.layout, ranks=spec.ranks, device=own_device(), **place)
        return Role(spec, architecture, groups, nn.ModuleList(), absent)
    module = build_stages(
        architecture,
        groups,
        head=spec.head,
        dtype=spec.dtype,
        seed=seed,
        delay_weight_gradients=spec.splits,
        implementation=spec.implementation,
        options=spec.options,
        key=spec.key,
        **place,
    )
    load_hf(module, spec.folder)
    module.eval()
    pipeline = megatron_model(spec.name, module, layout=spec.layout, rank=dist.get_rank(), ranks=spec.ranks, **place)
    return Role(spec, architecture, groups, module, pipeline)


def build_trained_role(
    spec: RoleSpec, optim: OptimConfig, *, distributed_optimizer: bool, steps: int, seed: int, timeout_s: float
) -> TrainedRole:
    """A role that learns; `steps`: optimizer steps of the run, over which the learning rate decays."""
    role = build_role(spec, seed=seed, timeout_s=timeout_s)
    made = role.spec, role.architecture, role.groups, role.module, role.pipeline
    if not role.held:
        return TrainedRole(*made, None)
    settings = OptimizerSettings(
        lr=optim.lr,
        min_lr=optim.min_lr,
        weight_decay=optim.weight_decay,
        clip_grad=optim.clip_grad,
        lr_decay_style=optim.lr_decay_style,
        lr_warmup_steps=optim.lr_warmup_steps,
        total_steps=max(optim.lr_decay_steps or steps, optim.lr_warmup_steps + 1),
        betas=(optim.betas[0], optim.betas[1]),
        eps=optim.eps,
        use_distributed_optimizer=distributed_optimizer,
        overlap_grad_reduce=spec.overlap_grad_reduce,
        overlap_param_gather=spec.overlap_param_gather,
    )
    trained = TrainableModel(role.module, groups=role.groups, settings=settings, name=spec.name)
    return TrainedRole(*made, trained)


def own_device() -> torch.device:
    """Where this rank's models live."""
    on_gpu = dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def make_executor(roles: Iterable[Role], *, timeout_s: float) -> Executor:
    """The executor that runs passes over these roles. A collective of the whole job."""
    return Executor([role.pipeline for role in roles], timeout=timeout_s)

"""A model under training: Megatron's DDP, Adam, clipping and learning-rate schedule around this rank's stages.

    model.zero_grad()
    with model.no_sync():                      # the whole region, all micro-batches of all models
        ... forwards and backwards ...
    model.start_reduce()                       # overlap_grad_reduce: begin the sum while other models' ops run
    model.finalize_grads()                     # tied embeddings over first and last stage; sum over data parallel ranks
    info = model.step()                        # norm over this model's own tp x pp ranks, clip, Adam, schedule;
                                               # overlap_param_gather: begin to gather parameters

Losses come divided by the global count of valid tokens, so gradients are summed, never averaged. A step whose gradient
norm is not finite is skipped and counted: nothing of model, optimizer and schedule changes.
"""

import copy
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from torch import nn

from fusedrl.models.parameter_gather import gather_asynchronously, settle
from fusedrl.models.stages import stages_of
from fusedrl.parallel.groups import ProcessGroupCollection
from megatron_patches import parameter_groups

log = logging.getLogger(__name__)

DECAY_STYLES = ("constant", "linear", "cosine", "inverse-square-root")


@dataclass(frozen=True)
class OptimizerSettings:
    """Adam, clipping and schedule of one model; names follow verl's `optim.*` where it has one."""

    lr: float = 1e-6
    min_lr: float = 0.0
    weight_decay: float = 0.01
    clip_grad: float = 1.0
    lr_decay_style: str = "constant"
    lr_warmup_steps: int = 0
    total_steps: int = 1_000_000
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    use_distributed_optimizer: bool = False
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False

    def __post_init__(self) -> None:
        if self.lr_decay_style not in DECAY_STYLES:
            raise ValueError(f"optim.lr_decay_style={self.lr_decay_style!r} is not one of {', '.join(DECAY_STYLES)}")
        if not 0 <= self.min_lr <= self.lr:
            raise ValueError(f"optim.min_lr={self.min_lr} must lie between 0 and optim.lr={self.lr}")
        if not 0 <= self.lr_warmup_steps < self.total_steps:
            raise ValueError(
                f"optim.lr_warmup_steps={self.lr_warmup_steps} must be below the total of {self.total_steps} steps"
            )
        if self.overlap_param_gather and not (self.use_distributed_optimizer and self.overlap_grad_reduce):
            raise ValueError(
                f"overlap_param_gather needs use_distributed_optimizer={self.use_distributed_optimizer} and "
                f"overlap_grad_reduce={self.overlap_grad_reduce} to be true"
            )


@dataclass(frozen=True)
class StepInfo:
    """One optimizer step: whether it was taken, the norm before clipping, the learning rate that it used."""

    success: bool
    grad_norm: float
    lr: float


class TrainableModel:
    """One model on this rank, with what trains it. module: a GPTModel, or the ModuleList of a rank's several stages."""

    def __init__(
        self, module: nn.Module, *, groups: ProcessGroupCollection, settings: OptimizerSettings, name: str = "model"
    ) -> None:
        self.module, self.groups, self.name, self.settings = module, groups, name, settings
        self.stages = stages_of(module)
        self.ddp = [
            DistributedDataParallel(
                config=stage.config,
                ddp_config=_ddp_config(settings, delay_wgrad=stage.config.delay_wgrad_compute),
                module=stage,
                disable_bucketing=True,
                pg_collection=groups,
            )
            for stage in self.stages
        ]
        with parameter_groups.within(groups.intra_dist_opt):
            self.optimizer = get_megatron_optimizer(
                _optimizer_config(settings, dtype=self.stages[0].config.params_dtype),
                self.ddp,
                use_gloo_process_groups=False,
                pg_collection=groups,
            )
        self.scheduler = _scheduler(self.optimizer, settings)
        self._reducing = False
        if settings.overlap_grad_reduce:
            _reduce_asynchronously(self.ddp)
        if settings.overlap_param_gather:
            gather_asynchronously(self.ddp)
        self.skipped_steps = self.skipped_in_a_row = 0

    @property
    def lr(self) -> float:
        """The learning rate that the next step will use."""
        return float(self.scheduler.get_lr({"max_lr": self.settings.lr, "min_lr": self.settings.min_lr}))

    def zero_grad(self) -> None:
        for each in self.ddp:
            each.zero_grad_buffer()
        self.optimizer.zero_grad()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backwards inside only add to the gradients; nothing is communicated."""
        with ExitStack() as region:
            for each in self.ddp:
                region.enter_context(each.no_sync())
            yield

    def start_reduce(self) -> None:
        """With overlap_grad_reduce: begin to sum gradients over data-parallel ranks; this model's last backward, and
        the last W, must have run. Tied embeddings are summed over stages first, which waits for other ranks: such a
        model begins in finalize_grads."""
        tied = any(stage.share_embeddings_and_output_weights for stage in self.stages)
        if self.settings.overlap_grad_reduce and not tied:
            self._start_reduce()

    def _start_reduce(self) -> None:
        for each in self.ddp:
            each.start_grad_sync()
        self._reducing = True

    def finalize_grads(self) -> None:
        """Sum tied embeddings over first and last stage, and gradients over data-parallel ranks. Collective."""
        if not self._reducing:
            self._sum_tied()
            if self.settings.overlap_grad_reduce:
                self._start_reduce()
        self._reducing = False
        groups = copy.copy(self.groups)
        groups.embd = None  # or Megatron would sum the tied copies
        finalize_model_grads(self.ddp, pg_collection=groups)

    def _sum_tied(self) -> None:
        """Megatron does this after the sum over data-parallel ranks, from which the distributed optimizer keeps only a
        part of each stage's gradients, not the same of both stages; and not for two copies on one rank (a V)."""
        tied = [stage for stage in self.stages if stage.share_embeddings_and_output_weights]
        copies = [s.shared_embedding_or_output_weight().main_grad for s in tied if s.pre_process != s.post_process]
        if len(copies) == 2:
            copies[0].add_(copies[1])
            copies[1].copy_(copies[0])
        elif copies:
            dist.all_reduce(copies[0], group=self.groups.embd)

    def step(self) -> StepInfo:
        """Clip and update; collective over the model's ranks. All ranks take the same decision on a non-finite norm.
        With overlap_param_gather parameters are complete once `settle` (parameter_gather.py) has been called, as a
        forward does."""
        settle(self.module)  # those of the step before, where no forward came between
        lr = self.lr
        self.optimizer.prepare_grads()
        norm = float(self.optimizer.get_grad_norm())
        if not math.isfinite(norm):
            self.skipped_steps += 1
            self.skipped_in_a_row += 1
            log.warning("%s: gradient norm is %s, step skipped (%d so far)", self.name, norm, self.skipped_steps)
            return StepInfo(False, norm, lr)
        success, _, _ = self.optimizer.step()
        self.scheduler.step(1)
        self.skipped_in_a_row = 0
        return StepInfo(bool(success), norm, lr)

    def reload_params(self) -> None:
        """After weights were overwritten from outside: refresh the optimizer's own copies of them."""
        self.optimizer.reload_model_params()

    def progress(self) -> dict[str, int]:
        """How far the schedule has come, for `restore_progress`."""
        return {
            "scheduled_steps": int(self.scheduler.num_steps),
            "skipped_steps": self.skipped_steps,
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def restore_progress(self, *, scheduled_steps: int, skipped_steps: int, skipped_in_a_row: int = 0) -> None:
        """Go on where another run's schedule stood; the learning rate follows from this run's settings."""
        self.scheduler.num_steps = 0
        self.scheduler.step(scheduled_steps)
        self.skipped_steps, self.skipped_in_a_row = skipped_steps, skipped_in_a_row

    def state(self) -> Mapping[str, Any]:
        """What this rank needs to go on: weights, optimizer state, schedule; for exact comparison and for saving."""
        settle(self.module)
        return {
            "model": [stage.state_dict_for_save_checkpoint() for stage in self.stages],
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
        }


def _reduce_asynchronously(models: list[DistributedDataParallel]) -> None:
    """Let `start_grad_sync` return at once and `finish_grad_sync` wait.

    Megatron's own overlap starts a bucket's reduction in the hooks of its parameters, which count backwards and want a
    gradient in each: they cannot tell a model's last backward from others, nor does B of a split backward give one. So
    the hooks are made without overlap, and the buckets alone get a configuration with it.
    """
    for model in models:
        for group in (*model.bucket_groups, *model.expert_parallel_bucket_groups):
            group.ddp_config = replace(group.ddp_config, overlap_grad_reduce=True)


def _ddp_config(settings: OptimizerSettings, *, delay_wgrad: bool) -> DistributedDataParallelConfig:
    return DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        overlap_grad_reduce=False,
        overlap_param_gather=False,
        use_distributed_optimizer=settings.use_distributed_optimizer,
        average_in_collective=False,
        check_for_nan_in_grad=False,
        delay_wgrad_compute=delay_wgrad,
    )


def _optimizer_config(settings: OptimizerSettings, *, dtype: torch.dtype) -> OptimizerConfig:
    return OptimizerConfig(
        optimizer="adam",
        lr=settings.lr,
        min_lr=settings.min_lr,
        weight_decay=settings.weight_decay,
        clip_grad=settings.clip_grad,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        adam_eps=settings.eps,
        bf16=dtype == torch.bfloat16,
        fp16=False,
        params_dtype=dtype,
        use_distributed_optimizer=settings.use_distributed_optimizer,
    )


def _scheduler(optimizer: Any, settings: OptimizerSettings) -> OptimizerParamScheduler:
    """Warm-up starts at lr / steps rather than at 0, where the first step would do nothing."""
    warmup = settings.lr_warmup_steps
    return OptimizerParamScheduler(
        optimizer,
        init_lr=settings.lr / warmup if warmup else 0.0,
        max_lr=settings.lr,
        min_lr=settings.min_lr,
        lr_warmup_steps=warmup,
        lr_decay_steps=settings.total_steps,
        lr_decay_style=settings.lr_decay_style,
        start_wd=settings.weight_decay,
        end_wd=settings.weight_decay,
        wd_incr_steps=settings.total_steps,
        wd_incr_style="constant",
        use_checkpoint_opt_param_scheduler=False,
    )

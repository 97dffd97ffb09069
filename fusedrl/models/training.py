"""A model under training: Megatron's DDP, Adam, clipping and learning-rate schedule around this rank's stage.

    model.zero_grad()
    with model.no_sync():                      # the whole region, all micro-batches of all models
        ... forwards and backwards ...
    model.finalize_grads()                     # sum over data parallel ranks; tied embeddings over first and last stage
    info = model.step()                        # norm over this model's own tp x pp ranks, clip, Adam, schedule

Losses come divided by the global count of valid tokens, so gradients are summed, never averaged. A step whose gradient
norm is not finite is skipped and counted.
"""

import logging
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

from fusedrl.parallel.groups import ProcessGroupCollection

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

    def __post_init__(self) -> None:
        if self.lr_decay_style not in DECAY_STYLES:
            raise ValueError(f"optim.lr_decay_style={self.lr_decay_style!r} is not one of {', '.join(DECAY_STYLES)}")
        if not 0 <= self.min_lr <= self.lr:
            raise ValueError(f"optim.min_lr={self.min_lr} must lie between 0 and optim.lr={self.lr}")
        if not 0 <= self.lr_warmup_steps < self.total_steps:
            raise ValueError(
                f"optim.lr_warmup_steps={self.lr_warmup_steps} must be below the total of {self.total_steps} steps"
            )


@dataclass(frozen=True)
class StepInfo:
    """One optimizer step: whether it was taken, the norm before clipping, the learning rate that it used."""

    success: bool
    grad_norm: float
    lr: float


class TrainableModel:
    """One model on this rank, with what trains it."""

    def __init__(
        self, module: GPTModel, *, groups: ProcessGroupCollection, settings: OptimizerSettings, name: str = "model"
    ) -> None:
        self.module, self.groups, self.name, self.settings = module, groups, name, settings
        self.ddp = DistributedDataParallel(
            config=module.config,
            ddp_config=_ddp_config(settings),
            module=module,
            disable_bucketing=True,
            pg_collection=groups,
        )
        self.optimizer = get_megatron_optimizer(
            _optimizer_config(settings, dtype=module.config.params_dtype),
            [self.ddp],
            use_gloo_process_groups=False,
            pg_collection=groups,
        )
        self.scheduler = _scheduler(self.optimizer, settings)
        self.skipped_steps = 0

    @property
    def lr(self) -> float:
        """The learning rate that the next step will use."""
        return float(self.scheduler.get_lr({"max_lr": self.settings.lr, "min_lr": self.settings.min_lr}))

    def zero_grad(self) -> None:
        self.ddp.zero_grad_buffer()
        self.optimizer.zero_grad()

    def no_sync(self) -> AbstractContextManager[None]:
        """Backwards inside only add to the gradients; nothing is communicated."""
        return self.ddp.no_sync()

    def finalize_grads(self) -> None:
        """Sum gradients over data-parallel ranks, and tied embeddings over first and last stage. Collective."""
        finalize_model_grads([self.ddp], pg_collection=self.groups)

    def step(self) -> StepInfo:
        """Clip and update; collective over the model's ranks. All ranks take the same decision on a non-finite norm."""
        lr = self.lr
        self.optimizer.prepare_grads()
        norm = float(self.optimizer.get_grad_norm())
        if not math.isfinite(norm):
            self.skipped_steps += 1
            log.warning("%s: gradient norm is %s, step skipped (%d so far)", self.name, norm, self.skipped_steps)
            return StepInfo(False, norm, lr)
        success, _, _ = self.optimizer.step()
        self.scheduler.step(1)
        return StepInfo(bool(success), norm, lr)

    def reload_params(self) -> None:
        """After weights were overwritten from outside: refresh the optimizer's own copies of them."""
        self.optimizer.reload_model_params()

    def state(self) -> Mapping[str, Any]:
        """What this rank needs to go on: weights, optimizer state, schedule; for exact comparison and for saving."""
        return {
            "model": self.module.state_dict_for_save_checkpoint(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
        }


def _ddp_config(settings: OptimizerSettings) -> DistributedDataParallelConfig:
    return DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        overlap_grad_reduce=False,
        overlap_param_gather=False,
        use_distributed_optimizer=settings.use_distributed_optimizer,
        average_in_collective=False,
        check_for_nan_in_grad=False,
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

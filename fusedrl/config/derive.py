"""Sizes that follow from the configuration and the number of ranks: printed at the start, saved with the run.

    samples per step = data.train_batch_size x rollout.n          mini-batches = samples / ppo_mini_batch_size
    dp = ranks / (tp x cp x pp)             micro-batches = ppo_mini_batch_size / dp / ppo_micro_batch_size_per_gpu

Under a budget of tokens the number of micro-batches follows from the samples; told is the most, where all are longest.
They hold for a configuration without problems (fusedrl.config.validate).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fusedrl.config.budgets import Budget, ppo_budgets, rm_budget, sft_budget
from fusedrl.config.check_batches import data_parallel
from fusedrl.config.check_layout import layouts
from fusedrl.config.inference_layout import own_layouts
from fusedrl.config.numbers import counted
from fusedrl.config.ranks import count_ranks, parse_ranks, text_of, told
from fusedrl.config.schema import BaseTrainerConfig, MegatronConfig, OneModelConfig, PPOConfig, RMConfig, SFTConfig


@dataclass(frozen=True)
class ModelSizes:
    """One model's layout; `micro_batches`: of one mini-batch (forward-only models: of one step) on one replica.

    micro_batch: samples of each. Under a token_budget samples of the greatest length are meant.
    """

    tp: int
    pp: int
    dp: int
    micro_batches: int
    micro_batch: int
    token_budget: int | None = None
    cp: int = 1
    ranks: str | None = None


@dataclass(frozen=True)
class PPOSizes:
    ranks: int
    prompts_per_step: int
    samples_per_step: int
    mini_batches: int  # of one pass over the samples of a step
    updates_per_step: int  # optimizer steps: epochs x mini_batches
    rollout_groups: int  # generation engines
    max_sequence_length: int
    models: Mapping[str, ModelSizes]  # by role: actor, critic, ref, reward
    copies: Mapping[str, ModelSizes] = field(default_factory=dict)  # of actor and critic that read in own layouts
    idle: str = ""  # ranks that hold no model and do not generate


@dataclass(frozen=True)
class SFTSizes:
    ranks: int
    samples_per_step: int
    model: ModelSizes


@dataclass(frozen=True)
class RMSizes:
    """A sample of `model` is a pair."""

    ranks: int
    pairs_per_step: int
    model: ModelSizes


Sizes = PPOSizes | SFTSizes | RMSizes


def derive_ppo(config: PPOConfig, *, world: int) -> PPOSizes:
    policy = config.actor_rollout_ref
    samples = config.data.train_batch_size * policy.rollout.n
    mini_batches = samples // policy.actor.ppo_mini_batch_size
    longest = config.data.max_prompt_length + config.data.max_response_length
    budgets, passes = ppo_budgets(config), {"actor": "log_prob", "critic": "values"}
    micro = {
        "actor": policy.rollout.log_prob_micro_batch_size_per_gpu,
        "critic": config.critic.forward_micro_batch_size_per_gpu,
    }
    return PPOSizes(
        ranks=world,
        prompts_per_step=config.data.train_batch_size,
        samples_per_step=samples,
        mini_batches=mini_batches,
        updates_per_step=policy.actor.ppo_epochs * mini_batches,
        rollout_groups=count_ranks(policy.rollout.ranks, world=world)
        // (policy.rollout.tensor_model_parallel_size * policy.rollout.pipeline_model_parallel_size),
        max_sequence_length=longest,
        models={
            role: _sizes(megatron, world=world, samples=whole, micro=each, budget=budgets.get(role), longest=longest)
            for role, (megatron, whole, each) in _work(config, samples=samples).items()
        },
        copies={
            f"{role} reads": _sizes(
                megatron,
                world=world,
                samples=samples,
                micro=micro[role],
                budget=budgets.get(passes[role]),
                longest=longest,
            )
            for role, _, megatron in own_layouts(config)
        },
        idle=_idle(config, world=world),
    )


def _idle(config: PPOConfig, *, world: int) -> str:
    texts = [config.actor_rollout_ref.rollout.ranks]
    texts += [text_of(megatron) for _, megatron in layouts(config).values()]
    texts += [megatron.ranks for _, _, megatron in own_layouts(config)]
    busy = {rank for text in texts for rank in parse_ranks(text, world=world, key="ranks")}
    return told([rank for rank in range(world) if rank not in busy])


def derive_sft(config: SFTConfig, *, world: int) -> SFTSizes:
    return SFTSizes(world, config.data.train_batch_size, _one_model(config, world=world, budget=sft_budget(config)))


def derive_rm(config: RMConfig, *, world: int) -> RMSizes:
    return RMSizes(world, config.data.train_batch_size, _one_model(config, world=world, budget=rm_budget(config)))


def _one_model(config: OneModelConfig, *, world: int, budget: Budget | None) -> ModelSizes:
    data = config.data
    samples, micro, longest = data.train_batch_size, data.micro_batch_size_per_gpu, data.max_length
    return _sizes(config.megatron, world=world, samples=samples, micro=micro, budget=budget, longest=longest)


def clip_range(config: PPOConfig) -> tuple[float, float]:
    """The policy's clip range (low, high): clip_ratio where a side is not given."""
    actor = config.actor_rollout_ref.actor
    low, high = actor.clip_ratio_low, actor.clip_ratio_high
    return actor.clip_ratio if low is None else low, actor.clip_ratio if high is None else high


def total_steps(trainer: BaseTrainerConfig, *, rows: int, batch: int) -> int:
    """Steps of the run over `rows` training rows; an epoch's incomplete last batch is left out."""
    if trainer.total_training_steps is not None:
        return trainer.total_training_steps
    if rows < batch:
        raise ValueError(f"data.train_batch_size={batch} is above the {rows} training rows; lower it")
    return trainer.total_epochs * (rows // batch)


def to_dict(sizes: Sizes) -> dict[str, object]:
    """Plain values, for the run folder."""
    return asdict(sizes)


def describe(sizes: Sizes) -> list[str]:
    """The lines printed at the start of a run."""
    if isinstance(sizes, SFTSizes):
        return [f"{counted(sizes.ranks, 'rank')}; step: {sizes.samples_per_step} samples", _line("model", sizes.model)]
    if isinstance(sizes, RMSizes):
        return [f"{counted(sizes.ranks, 'rank')}; step: {sizes.pairs_per_step} pairs", _line("model", sizes.model)]
    first = (
        f"{counted(sizes.ranks, 'rank')}; step: {sizes.prompts_per_step} prompts, {sizes.samples_per_step} samples, "
        f"{sizes.updates_per_step} updates on {sizes.mini_batches} mini-batches; "
        f"{sizes.rollout_groups} generation engines; up to {sizes.max_sequence_length} tokens a sample"
    )
    models = {**sizes.models, **sizes.copies}
    idle = [f"note: ranks {sizes.idle} hold no model and do not generate"] if sizes.idle else []
    return [first, *(_line(role, model) for role, model in models.items()), *idle]


def _line(role: str, model: ModelSizes) -> str:
    batches = f"{model.micro_batches} micro-batches"
    if model.token_budget is not None:
        batches = f"up to {batches} of {model.token_budget} tokens"
    context = f" cp={model.cp}" if model.cp > 1 else ""
    place = "" if model.ranks is None else f" on ranks {model.ranks}"
    return f"{role}: tp={model.tp}{context} pp={model.pp} dp={model.dp}{place}, {batches} on each replica"


def _work(config: PPOConfig, *, samples: int) -> dict[str, tuple[MegatronConfig, int, int]]:
    """Role -> (layout, samples of one pass over all replicas, samples of one micro-batch)."""
    policy = config.actor_rollout_ref
    passes = {
        "actor": (policy.actor.ppo_mini_batch_size, policy.actor.ppo_micro_batch_size_per_gpu),
        "critic": (config.critic.ppo_mini_batch_size, config.critic.ppo_micro_batch_size_per_gpu),
        "ref": (samples, policy.ref.log_prob_micro_batch_size_per_gpu),
        "reward": (samples, config.reward_model.micro_batch_size_per_gpu),
    }
    return {role: (megatron, *passes[role]) for role, (_, megatron) in layouts(config).items()}


def _sizes(
    megatron: MegatronConfig, *, world: int, samples: int, micro: int, budget: Budget | None, longest: int
) -> ModelSizes:
    dp = data_parallel(megatron, world=world)
    tp, pp, cp = (
        megatron.tensor_model_parallel_size,
        megatron.pipeline_model_parallel_size,
        megatron.context_parallel_size,
    )
    on: dict[str, Any] = {"cp": cp, "ranks": text_of(megatron)}
    if budget is None:
        return ModelSizes(tp, pp, dp, micro_batches=math.ceil(samples / dp / micro), micro_batch=micro, **on)
    most, rows = budget.most(samples // dp, length=longest), budget.tokens // budget.padded(longest)
    return ModelSizes(tp, pp, dp, micro_batches=most, micro_batch=rows, token_budget=budget.tokens, **on)

"""Checks of batch sizes, lengths and steps. Each check returns one line per problem: key, numbers, what would fit."""

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence

from fusedrl.config.check_budgets import check_ppo_budgets
from fusedrl.config.check_layout import ModelNumbers, layouts, needs_critic
from fusedrl.config.inference_layout import own_layouts
from fusedrl.config.numbers import divisors, listed, listed_words
from fusedrl.config.ranks import count_ranks, text_of
from fusedrl.config.schema import (
    ActorConfig,
    BaseDataConfig,
    CriticConfig,
    MegatronConfig,
    OptimConfig,
    PPOConfig,
    TaskConfig,
)


def data_parallel(megatron: MegatronConfig, *, world: int) -> int:
    """Replicas of a model over its ranks; at least 1, so that further checks can go on."""
    shared = megatron.tensor_model_parallel_size * megatron.context_parallel_size
    count = count_ranks(text_of(megatron), world=world)
    return max(1, count // (shared * megatron.pipeline_model_parallel_size))


def check_microbatches(mini: int, micro: int, *, mini_key: str, micro_key: str, dp: int) -> Iterator[str]:
    """A mini-batch is whole micro-batches on every replica."""
    if mini % dp:
        yield f"{mini_key}={mini} does not divide over {dp} data-parallel replicas; make it a multiple of {dp}"
    elif (mini // dp) % micro:
        yield (
            f"{micro_key}={micro} does not divide the {mini // dp} samples that each of {dp} data-parallel replicas "
            f"takes of {mini_key}={mini}; set it to {listed(divisors(mini // dp), near=micro)}"
        )


def check_ppo_batches(config: PPOConfig, *, world: int, models: Mapping[str, ModelNumbers]) -> Iterator[str]:
    """Batch sizes of actor and critic, samples over replicas, lengths over the models' positions."""
    samples = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    roles: dict[str, ActorConfig | CriticConfig] = {"actor_rollout_ref.actor": config.actor_rollout_ref.actor}
    if needs_critic(config):
        roles["critic"] = config.critic
    for key, role in roles.items():
        mini, mini_key = role.ppo_mini_batch_size, f"{key}.ppo_mini_batch_size"
        micro = 1 if role.use_dynamic_bsz else role.ppo_micro_batch_size_per_gpu
        dp = data_parallel(role.megatron, world=world)
        yield from _check_mini_batch(mini, key=mini_key, samples=samples, unit=dp * micro, config=config)
        yield from check_microbatches(
            mini, micro, mini_key=mini_key, micro_key=f"{key}.ppo_micro_batch_size_per_gpu", dp=dp
        )
    replicas = {role: data_parallel(megatron, world=world) for role, (_, megatron) in layouts(config).items()}
    yield from check_ppo_budgets(config, dp=replicas)
    if needs_critic(config):
        yield from _check_equal_updates(config)
    yield from _check_replicas(config, samples=samples, world=world)
    yield from _check_copies(config, samples=samples, world=world)
    yield from _check_positions(config, models=models)


def _check_mini_batch(mini: int, *, key: str, samples: int, unit: int, config: PPOConfig) -> Iterator[str]:
    """unit: a mini-batch is a multiple of it; hints keep to that where the samples allow it."""
    if samples % mini:
        fits = [unit * each for each in divisors(samples // unit)] if samples % unit == 0 else divisors(samples)
        yield (
            f"{key}={mini} (samples) does not divide data.train_batch_size={config.data.train_batch_size} prompts x "
            f"actor_rollout_ref.rollout.n={config.actor_rollout_ref.rollout.n} = {samples} samples; "
            f"set it to {listed(fits, near=mini)}"
        )


def _check_equal_updates(config: PPOConfig) -> Iterator[str]:
    """Each optimizer step of the actor runs together with one of the critic."""
    for name in ("ppo_mini_batch_size", "ppo_epochs"):
        ours, theirs = getattr(config.critic, name), getattr(config.actor_rollout_ref.actor, name)
        if ours != theirs:
            yield (
                f"critic.{name}={ours} differs from actor_rollout_ref.actor.{name}={theirs}: "
                "each mini-batch trains both models in one pass; make them equal"
            )


def _check_replicas(config: PPOConfig, *, samples: int, world: int) -> Iterator[str]:
    """Models that only run forward take an equal share of the samples on each replica too."""
    for role, (key, megatron) in layouts(config).items():
        dp = data_parallel(megatron, world=world)
        if samples % dp and role not in ("actor", "critic"):
            yield (
                f"{key}: {samples} samples of a step do not divide over its {dp} data-parallel replicas; "
                f"make data.train_batch_size x actor_rollout_ref.rollout.n a multiple of {dp}"
            )
        prompts = config.data.train_batch_size
        if role == "reward" and config.algorithm.adv_estimator == "remax" and prompts % dp:
            yield (
                f"{key}: the greedy responses to {prompts} prompts (algorithm.adv_estimator=remax) do not divide over "
                f"its {dp} data-parallel replicas; make data.train_batch_size a multiple of {dp}"
            )


def _check_copies(config: PPOConfig, *, samples: int, world: int) -> Iterator[str]:
    for _, key, megatron in own_layouts(config):
        if samples % (dp := data_parallel(megatron, world=world)):
            yield (
                f"{key}: {samples} samples of a step do not divide over its {dp} data-parallel replicas; make "
                f"data.train_batch_size x actor_rollout_ref.rollout.n a multiple of {dp}"
            )


def _check_positions(config: PPOConfig, *, models: Mapping[str, ModelNumbers]) -> Iterator[str]:
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    for role, numbers in models.items():
        if prompt + response > numbers.max_position:
            yield (
                f"data.max_prompt_length={prompt} + data.max_response_length={response} = {prompt + response} tokens "
                f"exceed the {numbers.max_position} positions of the {role} model; shorten one of them"
            )


def check_data(data: BaseDataConfig, *, validates: bool) -> Iterator[str]:
    """Rows come from files or from a generated task, enough of them; validation has rows where it is asked for."""
    yield from _check_files(data)
    if data.task.name is not None:
        yield from check_task(data.task.name)
    if not data.train_files and not data.task.name:
        yield "data.train_files: nothing to train on; give files, or a generated task as data.task.name"
    if validates and not data.val_files and not (data.task.name and data.task.val_size):
        yield (
            "data.val_files: validation is asked for (trainer.test_freq, trainer.val_before_train) but has no rows; "
            "give files, or data.task.val_size of a generated task, or switch both off (false, test_freq=-1)"
        )
    batch: int = getattr(data, "train_batch_size", 1)
    if data.task.name and data.task.train_size < batch:
        yield f"data.task.train_size={data.task.train_size} is below data.train_batch_size={batch}; raise it"


def _check_files(data: BaseDataConfig) -> Iterator[str]:
    for key, paths in (("data.train_files", data.train_files), ("data.val_files", data.val_files)):
        yield from check_paths(key, paths, task=data.task)


def check_paths(key: str, paths: Sequence[str], *, task: TaskConfig) -> Iterator[str]:
    """The files are there, and nothing else gives rows."""
    if paths and task.name:
        yield f"{key} and data.task.name={task.name} are both given; set one of them"
    else:
        yield from (f"{key}: {path}: there is no such file" for path in paths if not os.path.exists(path))


def check_task(name: str) -> Iterator[str]:
    from reasoning_gym.factory import DATASETS  # its import takes a second, so only where it is asked

    if name not in DATASETS:
        near = listed_words(difflib.get_close_matches(name, DATASETS, n=3))
        hint = f"did you mean {near}?" if near else "reasoning_gym.factory.DATASETS lists them"
        yield f"data.task.name={name}: reasoning-gym has no such task; {hint}"


def check_optim(optim: OptimConfig, *, key: str) -> Iterator[str]:
    if len(optim.betas) != 2:
        yield f"{key}.betas={list(optim.betas)}: needs two numbers, such as [0.9,0.999]"
    if optim.min_lr > optim.lr:
        yield f"{key}.min_lr={optim.min_lr:g} is above {key}.lr={optim.lr:g}; lower it"
    if optim.lr_decay_steps is not None and optim.lr_warmup_steps >= optim.lr_decay_steps:
        yield (
            f"{key}.lr_warmup_steps={optim.lr_warmup_steps} leaves nothing of "
            f"{key}.lr_decay_steps={optim.lr_decay_steps}; make it smaller"
        )

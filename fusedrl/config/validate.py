"""All checks of a configuration against the models' numbers and the ranks of the job, before any process group starts.

    problems = check_ppo(config, world=4, models={"actor": architecture, "critic": architecture})
    require(problems)      # raises ConfigError with all of them

Pure functions; every problem is told at once. Values outside a key's own limits are found earlier, by load.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fusedrl.config.check_batches import (
    check_data,
    check_microbatches,
    check_optim,
    check_ppo_batches,
    data_parallel,
)
from fusedrl.config.check_budgets import check_rm_budget, check_sft_budget
from fusedrl.config.check_function import check_function
from fusedrl.config.check_generation import check_sampling
from fusedrl.config.check_layout import (
    ModelNumbers,
    check_model,
    check_ppo_layouts,
    check_ranks,
    needs_critic,
)
from fusedrl.config.check_loggers import check_loggers
from fusedrl.config.check_overlap import check_overlap, check_ppo_overlap
from fusedrl.config.check_partial import check_partial
from fusedrl.config.check_ptx import check_ptx
from fusedrl.config.check_shaping import check_shaping
from fusedrl.config.check_stream import check_stream
from fusedrl.config.derive import total_steps
from fusedrl.config.errors import ConfigError
from fusedrl.config.schema import OneModelConfig, PPOConfig, RMConfig, SFTConfig
from fusedrl.config.schema.algorithm import GROUPED
from fusedrl.config.schema.schedule import METHODS


def require(problems: Sequence[str]) -> None:
    """Raises ConfigError where there is a problem."""
    if problems:
        raise ConfigError(problems)


def check_ppo(config: PPOConfig, *, world: int, models: Mapping[str, ModelNumbers]) -> list[str]:
    """Every problem of a PPO run on `world` ranks. `models`: the known ones by role (actor, critic, ref, reward)."""
    validates = config.trainer.test_freq > 0 or config.trainer.val_before_train
    return [
        *check_ppo_layouts(config, world=world, models=models),
        *check_ppo_overlap(config),
        *check_stream(config, world=world, models=models),
        *check_partial(config),
        *check_ptx(config, world=world, models=models),
        *check_ppo_batches(config, world=world, models=models),
        *check_data(config.data, validates=validates),
        *check_sampling(config.actor_rollout_ref.rollout.val_kwargs, key="actor_rollout_ref.rollout.val_kwargs"),
        *check_optim(config.actor_rollout_ref.actor.optim, key="actor_rollout_ref.actor.optim"),
        *(check_optim(config.critic.optim, key="critic.optim") if needs_critic(config) else ()),
        *_check_estimator(config),
        *_check_profiled(config),
        *check_loggers(config),
        *_check_reward(config),
        *check_shaping(config),
        *_check_schedule(config),
        *_check_warmup(config),
    ]


def check_sft(config: SFTConfig, *, world: int, model: ModelNumbers | None = None) -> list[str]:
    """Every problem of an SFT run on `world` ranks. `model`: of model.path; a new model's numbers are in `config`."""
    return [*_check_one_model(config, world=world, model=model), *check_sft_budget(config)]


def check_rm(config: RMConfig, *, world: int, model: ModelNumbers | None = None) -> list[str]:
    """Every problem of training a reward model on `world` ranks, as check_sft has them."""
    return [*_check_one_model(config, world=world, model=model), *check_rm_budget(config)]


def _check_one_model(config: OneModelConfig, *, world: int, model: ModelNumbers | None) -> list[str]:
    dp = data_parallel(config.megatron, world=world)
    data = config.data
    return [
        *_check_start(config),
        *check_ranks(config.megatron, key="megatron", world=world),
        *check_overlap(config.megatron, key="megatron"),
        *([] if model is None else check_model(config.megatron, key="megatron", numbers=model)),
        *check_microbatches(
            data.train_batch_size,
            1 if data.use_dynamic_bsz else data.micro_batch_size_per_gpu,
            mini_key="data.train_batch_size",
            micro_key="data.micro_batch_size_per_gpu",
            dp=dp,
        ),
        *check_data(data, validates=config.trainer.test_freq > 0),
        *check_loggers(config),
        *check_optim(config.optim, key="optim"),
        *([] if model is None else _check_length(config, model)),
    ]


def _check_start(config: OneModelConfig) -> Iterator[str]:
    """Weights come from a folder or are new."""
    path, alphabet = config.model.path, config.model.new.alphabet
    if path is None and alphabet is None:
        yield "model.path: a value is needed: give a folder to start from, or model.new.alphabet for a new model"
    if path is not None and alphabet is not None:
        yield f"model.path={path} and model.new.alphabet are both given; set one of them to null"
    if alphabet is not None and len(set(alphabet)) != len(alphabet):
        repeated = sorted({character for character in alphabet if alphabet.count(character) > 1})
        yield f"model.new.alphabet repeats {''.join(repeated)!r}; name each character once"


def _check_length(config: OneModelConfig, model: ModelNumbers) -> Iterator[str]:
    if config.data.max_length > model.max_position:
        yield f"data.max_length={config.data.max_length} exceeds the model's {model.max_position} positions; lower it"


def _check_reward(config: PPOConfig) -> Iterator[str]:
    function = config.custom_reward_function.path
    if not (function or config.reward_model.enable or config.data.task.name):
        yield (
            "custom_reward_function.path: nothing gives a reward; name a Python file, "
            "switch on reward_model.enable, or take a generated task (data.task.name), which has its own verifier"
        )
    yield from check_function(config.custom_reward_function)
    if config.reward_model.enable and config.reward_model.model.path is None:
        yield "reward_model.model.path: a value is needed where reward_model.enable=true"


def _check_schedule(config: PPOConfig) -> Iterator[str]:
    method, placement = config.schedule.method, config.schedule.placement
    path = method.removeprefix("file:")
    if path == method and method not in METHODS:
        yield f"schedule.method={method}: must be {', '.join(METHODS)} or file:PATH"
    elif path != method and not Path(path).is_file():
        yield f"schedule.method={method}: there is no such file"
    if method == "interleaved" and placement != "interleaved":
        yield f"schedule.method=interleaved needs schedule.placement=interleaved, not {placement}"
    share, cap, costs = config.schedule.memory_share, config.schedule.memory_cap, config.schedule.costs
    if share is not None and cap is not None:
        yield f"schedule.memory_share={share:g} and schedule.memory_cap={cap:g} are both given; set one of them to null"
    if share is not None and costs == "constant":
        yield f"schedule.memory_share={share:g} is a share of MiB; it needs schedule.costs=counted, not constant"


def _check_profiled(config: PPOConfig) -> Iterator[str]:
    steps = config.trainer.total_training_steps
    beyond = [] if steps is None else [step for step in config.trainer.profile_steps if step > steps]
    if beyond:
        yield f"trainer.profile_steps: {beyond} lie beyond trainer.total_training_steps={steps}; leave them out"


def _check_estimator(config: PPOConfig) -> Iterator[str]:
    """Estimators that compare the samples of a prompt need two; without a critic there is nothing to warm up."""
    name, n = config.algorithm.adv_estimator, config.actor_rollout_ref.rollout.n
    if name in GROUPED and n < 2:
        yield (
            f"algorithm.adv_estimator={name} compares the samples of a prompt with each other, and "
            f"actor_rollout_ref.rollout.n={n} makes one; set n to 2 or more"
        )
    if not needs_critic(config) and config.trainer.critic_warmup > 0:
        yield (
            f"trainer.critic_warmup={config.trainer.critic_warmup}: algorithm.adv_estimator={name} has no critic; "
            "set it to 0"
        )


def _check_warmup(config: PPOConfig) -> Iterator[str]:
    """Known here for a given number of steps and for a generated task; rows of files are counted at the start."""
    trainer, data = config.trainer, config.data
    if trainer.total_training_steps is not None:
        steps, told = trainer.total_training_steps, f"trainer.total_training_steps={trainer.total_training_steps}"
    elif data.task.name is not None and data.task.train_size >= data.train_batch_size:
        steps = total_steps(trainer, rows=data.task.train_size, batch=data.train_batch_size)
        told = (
            f"the {steps} steps that trainer.total_epochs={trainer.total_epochs} over "
            f"data.task.train_size={data.task.train_size} at data.train_batch_size={data.train_batch_size} gives"
        )
    else:
        return
    if trainer.critic_warmup >= steps:
        yield (
            f"trainer.critic_warmup={trainer.critic_warmup} leaves no step of {told} "
            "in which the actor learns; make it smaller"
        )

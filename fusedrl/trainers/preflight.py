"""What can be known to be wrong with a run before any process group exists: files, models, rows, functions, orders.

The configuration's own checks (fusedrl.config.validate) come first; these look at what it points to. Each returns one
line a problem. Costly ones (reading rows, importing the reward function) are rank 0's alone: its end ends the job.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from fusedrl.config.check_experts import check_experts
from fusedrl.config.check_layout import layouts, needs_critic, needs_reference
from fusedrl.config.schema import (
    EngineConfig,
    MegatronConfig,
    OneModelConfig,
    PPOConfig,
    RMConfig,
    SFTConfig,
)
from fusedrl.config.validate import check_ppo, check_rm, check_sft
from fusedrl.data.files import read_rows
from fusedrl.data.tokenizer import Tokenizer, has_tokenizer
from fusedrl.models.architecture import Architecture
from fusedrl.models.hf_folder import HfFolder
from fusedrl.models.implementation import choose
from fusedrl.models.weights import VALUE_HEAD
from fusedrl.rollout import vllm_library
from fusedrl.trainers.new_model import new_architecture
from fusedrl.trainers.pairing import pair_source, preferences_of
from fusedrl.trainers.preflight_plan import plan_update
from fusedrl.trainers.prompting import example_source, prompt_source, rows_of
from fusedrl.trainers.ptx import make_ptx
from fusedrl.trainers.resuming import identity, resume_problems
from fusedrl.trainers.retokenizing import KEY, make_retokenizer
from fusedrl.trainers.roles import implementation_of
from fusedrl.trainers.scoring import function_path, open_runner

MODEL_KEYS = {
    "actor": "actor_rollout_ref.model.path",
    "ref": "actor_rollout_ref.model.path",
    "critic": "critic.model.path",
    "reward": "reward_model.model.path",
}


def ppo_problems(config: PPOConfig, *, world: int, warm_start: SFTConfig | None, speaks: bool) -> list[str]:
    """`warm_start`: the SFT run that makes the actor's folder first; None where the folder is there."""
    models = ppo_models(config, warm_start=warm_start)
    found = check_ppo(config, world=world, models=models) + list(_vocabularies(config, models))
    found += implementation_problems(dict(layouts(config).values()))
    found += _experts(config, models)
    found += engine_problems(config.actor_rollout_ref.rollout, models["actor"])
    if found or not speaks:
        return found
    return [
        *folder_problems(Path(config.trainer.default_local_dir), key="trainer.default_local_dir"),
        *attempt(lambda: _read_rows(config, warm_start)),
        *attempt(lambda: _load_function(config)),
        *attempt(lambda: _value_head(config)),
        *([] if warm_start else attempt(lambda: _read_as_text(config))),
        *attempt(lambda: plan_update(config, models, world=world)),
        *_resume(config, models),
    ]


def sft_problems(config: SFTConfig, *, world: int, speaks: bool) -> list[str]:
    return _one_model_problems(
        config,
        check_sft(config, world=world, model=sft_model(config)),
        speaks=speaks,
        command="sft",
        read=lambda: rows_of(config.data),
        tokenize=lambda tokenizer: example_source(config.data, tokenizer),
    )


def rm_problems(config: RMConfig, *, world: int, speaks: bool) -> list[str]:
    return _one_model_problems(
        config,
        check_rm(config, world=world, model=sft_model(config)),
        speaks=speaks,
        command="reward_model",
        read=lambda: preferences_of(config.data),
        tokenize=lambda tokenizer: pair_source(config.data, tokenizer),
    )


def _one_model_problems(
    config: OneModelConfig,
    found: list[str],
    *,
    speaks: bool,
    command: str,
    read: Callable[[], object],
    tokenize: Callable[[Tokenizer], object],
) -> list[str]:
    """`read`: the rows, where a tokenizer does not exist yet; `tokenize`: the rows with the one of model.path."""
    found += implementation_problems({"megatron": config.megatron})
    model = sft_model(config)
    found += check_experts({"megatron": config.megatron}, {"megatron": model} if model else {})
    if found or not speaks:
        return found
    start = config.model.path
    look = read if start is None else lambda: (HfFolder(start), tokenize(Tokenizer(start)))
    own = identity({"model": (model, config.optim)}) if model else {}
    return [
        *folder_problems(Path(config.trainer.default_local_dir), key="trainer.default_local_dir"),
        *attempt(look),
        *resume_problems(config.trainer, command=command, own=own),
    ]


def implementation_problems(megatron: Mapping[str, MegatronConfig]) -> list[str]:
    """Libraries that are asked for and not there, by the key of the layout that asks; one attention for all models."""
    found = [
        line for key, each in megatron.items() for line in attempt(partial(choose, implementation_of(each), key=key))
    ]
    backends = {key: each.attention_backend for key, each in megatron.items()}
    if len(set(backends.values())) > 1:
        told = ", ".join(f"{key}.attention_backend={backend}" for key, backend in backends.items())
        found.append(f"{told}: Transformer Engine chooses one for the whole process; make them equal")
    return found


def engine_problems(rollout: EngineConfig, model: Architecture, *, key: str = "actor_rollout_ref.rollout") -> list[str]:
    """vLLM is asked for and not there, or asked for what our engine of it does not do. model: that generates."""
    if rollout.name != "vllm":
        return []
    found = [] if (missing := vllm_library.problem(key=key)) is None else [missing]
    if (pp := rollout.pipeline_model_parallel_size) > 1:
        told = f"{key}.pipeline_model_parallel_size={pp}"
        found.append(f"{told}: with rollout.name=vllm layers are shared by tensor parallelism alone; set it to 1")
    if model.experts is not None:
        found.append(f"{key}.name=vllm: models with experts are generated by megatron alone; use that")
    return found


def ppo_models(config: PPOConfig, *, warm_start: SFTConfig | None) -> dict[str, Architecture]:
    """Architecture by role. The actor's of a pending warm start is that of the model which SFT trains."""
    policy, reward = config.actor_rollout_ref, config.reward_model
    made = None if warm_start is None else sft_model(warm_start)
    folders = {"actor": policy.model.path}
    if needs_critic(config):
        folders["critic"] = config.critic.model.path
    if needs_reference(config):
        folders["ref"] = policy.model.path
    if reward.enable and reward.model.path is not None:
        folders["reward"] = reward.model.path

    def architecture(role: str, folder: str) -> Architecture:
        if made is not None and folder == policy.model.path:
            return made
        try:
            return Architecture.from_folder(folder)
        except ValueError as error:
            raise ValueError(f"{MODEL_KEYS[role]}={folder}: {error}") from error

    return {role: architecture(role, folder) for role, folder in folders.items()}


def sft_model(config: OneModelConfig) -> Architecture | None:
    """The model that SFT, or training a reward model, starts from; None where none is named (a check says so)."""
    if config.model.path is not None:
        return Architecture.from_folder(config.model.path)
    alphabet = config.model.new.alphabet
    return None if alphabet is None else new_architecture(config.model.new, vocab_size=len(alphabet) + 3)


def _experts(config: PPOConfig, models: Mapping[str, Architecture]) -> Iterator[str]:
    keys = {role: key for role, (key, _) in layouts(config).items()}
    known = {key: models[role] for role, key in keys.items() if role in models}
    frozen = {key for role, key in keys.items() if role in ("ref", "reward")}
    yield from check_experts(dict(layouts(config).values()), known, frozen=frozen)


def _vocabularies(config: PPOConfig, models: Mapping[str, Architecture]) -> Iterator[str]:
    """All roles read the actor's token ids, but a reward model with a tokenizer beside it may read text."""
    wanted, reward = models["actor"].vocab_size, config.reward_model.model.path
    for role, model in models.items():
        reads_text = role == "reward" and reward is not None and has_tokenizer(reward)
        if model.vocab_size != wanted and not reads_text:
            key = MODEL_KEYS[role]
            yield f"{key}: its vocabulary has {model.vocab_size} tokens, the actor's has {wanted}; they must share one"


def folder_problems(path: Path, *, key: str) -> Iterator[str]:
    """A folder that can be made, or written to."""
    path = path.absolute()
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    if not there.is_dir():
        yield f"{key}={path}: {there} is a file; name a folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        yield f"{key}={path}: {there} cannot be written; name another folder"


def _resume(config: PPOConfig, models: Mapping[str, Architecture]) -> list[str]:
    """The saved state that the run would go on from is of this run's models."""
    optimizers = {"actor": config.actor_rollout_ref.actor.optim, "critic": config.critic.optim}
    own = identity({name: (models[name], optim) for name, optim in optimizers.items() if name in models})
    return resume_problems(config.trainer, command="ppo", own=own)


def attempt(check: Callable[[], object]) -> list[str]:
    """The message of a ValueError or OSError of `check` as a problem."""
    try:
        check()
    except (ValueError, OSError) as error:
        return [" ".join(str(error).split())]
    return []


def _read_rows(config: PPOConfig, warm_start: SFTConfig | None) -> None:
    if warm_start is None:
        tokenizer = Tokenizer(config.actor_rollout_ref.model.path)
        prompt_source(config.data, tokenizer)
        make_ptx(config, tokenizer, steps=1)
    else:  # the tokenizer comes with the model that SFT makes
        rows_of(config.data)
        read_rows(config.actor_rollout_ref.actor.ptx.files)


def _read_as_text(config: PPOConfig) -> None:
    """A reward model of another tokenizer knows the characters, and the chats, of every prompt."""
    actor = Tokenizer(config.actor_rollout_ref.model.path)
    if (retokenizer := make_retokenizer(config, actor)) is None:
        return
    try:
        for row in prompt_source(config.data, actor).train:
            retokenizer.prompt(row)
    except ValueError as error:
        raise ValueError(f"{KEY}={config.reward_model.model.path} reads prompts as text: {error}") from error


def _load_function(config: PPOConfig) -> None:
    if (path := function_path(config)) is not None:
        open_runner(path, config.custom_reward_function, workers=1).close()


def _value_head(config: PPOConfig) -> None:
    """A reward model must have been trained as one; the critic's head may be new."""
    reward = config.reward_model
    if reward.enable and reward.model.path is not None and VALUE_HEAD not in HfFolder(reward.model.path):
        raise ValueError(f"reward_model.model.path={reward.model.path}: no {VALUE_HEAD} there; give a reward model")

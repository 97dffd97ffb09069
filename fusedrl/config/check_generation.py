"""Checks of commands that only generate (evaluate, generate), and of sampling; PPO's validation shares the latter."""

from collections.abc import Iterator, Sequence

from fusedrl.config.check_batches import check_paths, check_task
from fusedrl.config.check_function import check_function
from fusedrl.config.check_layout import ModelNumbers, check_engine
from fusedrl.config.schema import (
    CustomRewardFunctionConfig,
    EvaluateConfig,
    GenerateConfig,
    GenerationConfig,
    PromptDataConfig,
    ValidationSamplingConfig,
)


def check_evaluate(config: EvaluateConfig, *, world: int, model: ModelNumbers) -> list[str]:
    """Every problem of an evaluation on `world` ranks."""
    return [
        *_check_shared(config, world=world, model=model),
        *_check_prompts(config.data, "data.val_files", config.data.val_files),
        *_check_function(config.custom_reward_function, task=config.data.task.name),
        *_check_k(config),
    ]


def check_generate(config: GenerateConfig, *, world: int, model: ModelNumbers) -> list[str]:
    """Every problem of generating responses on `world` ranks."""
    return [
        *_check_shared(config, world=world, model=model),
        *_check_prompts(config.data, "data.files", config.data.files),
    ]


def check_sampling(sampling: GenerationConfig | ValidationSamplingConfig, *, key: str) -> Iterator[str]:
    """Greedy responses to a prompt are all the same; sampling needs a temperature."""
    greedy = sampling.do_sample is False or sampling.temperature == 0
    if sampling.do_sample and sampling.temperature == 0:
        yield f"{key}.do_sample=true with {key}.temperature=0 draws nothing; set a temperature above 0"
    elif greedy and sampling.n > 1:
        told = "do_sample=false" if sampling.do_sample is False else "temperature=0"
        yield (
            f"{key}.n={sampling.n} with {key}.{told} makes {sampling.n} equal responses to each prompt; set n to 1, "
            "or sample"
        )


def _check_shared(config: EvaluateConfig | GenerateConfig, *, world: int, model: ModelNumbers) -> Iterator[str]:
    yield from check_engine(config.rollout, config.data, key="rollout", world=world, numbers=model)
    yield from check_sampling(config.rollout, key="rollout")
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    if prompt + response > model.max_position:
        yield (
            f"data.max_prompt_length={prompt} + data.max_response_length={response} = {prompt + response} tokens "
            f"exceed the model's {model.max_position} positions; shorten one of them"
        )


def _check_prompts(data: PromptDataConfig, key: str, paths: Sequence[str]) -> Iterator[str]:
    yield from check_paths(key, paths, task=data.task)
    if data.task.name is not None:
        yield from check_task(data.task.name)
        if data.task.val_size == 0:
            yield "data.task.val_size=0 leaves no prompt; raise it"
    elif not paths:
        yield f"{key}: no prompts; give files, or a generated task as data.task.name"


def _check_function(function: CustomRewardFunctionConfig, *, task: str | None) -> Iterator[str]:
    if not (function.path or task):
        yield (
            "custom_reward_function.path: nothing scores the responses; name a Python file, or take a generated task "
            "(data.task.name), which has its own verifier"
        )
    yield from check_function(function)


def _check_k(config: EvaluateConfig) -> Iterator[str]:
    n = config.rollout.n
    if beyond := sorted({k for k in config.evaluation.k if k > n}):
        yield f"evaluation.k={beyond}: no more than rollout.n={n} responses can be drawn; leave them out, or raise n"

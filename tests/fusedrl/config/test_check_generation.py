"""One line a problem of commands that only generate, and of sampling in validation."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fusedrl.config.check_generation import check_evaluate, check_generate, check_sampling
from fusedrl.config.load import load
from fusedrl.config.schema import EvaluateConfig, GenerateConfig, ValidationSamplingConfig
from tests.fusedrl.config.conftest import Numbers, changed


@cache
def evaluate() -> EvaluateConfig:
    return load("evaluate", ["experiment=arithmetic"])


@cache
def generate() -> GenerateConfig:
    return load("generate", ["experiment=arithmetic"])


def test_the_experiments_that_come_with_the_package_have_no_problem(numbers: Numbers) -> None:
    for world, tp, pp in ((1, 1, 1), (4, 2, 2), (4, 2, 1)):
        sizes = {"rollout.tensor_model_parallel_size": tp, "rollout.pipeline_model_parallel_size": pp}
        assert check_evaluate(changed(evaluate(), sizes), world=world, model=numbers) == []
        assert check_generate(changed(generate(), sizes), world=world, model=numbers) == []


@pytest.mark.parametrize(
    ("values", "start"),
    [
        ({"rollout.tensor_model_parallel_size": 2}, "rollout.tensor_model_parallel_size=2 does not divide the 3 ranks"),
        ({"rollout.pipeline_model_parallel_size": 3}, "rollout.pipeline_model_parallel_size=3 does not divide the mod"),
        ({"rollout.max_total_tokens": 9}, "rollout.max_total_tokens=9 is below 24: 1 batches in flight x (data.max_pr"),
        ({"rollout.temperature": 0.0}, "rollout.n="),
        ({"rollout.temperature": 0.0, "rollout.do_sample": True}, "rollout.do_sample=true with rollout.temperature=0"),
        ({"data.max_response_length": 60}, "data.max_prompt_length=16 + data.max_response_length=60 = 76 tokens exc"),
        ({"data.task.name": None}, "data."),
        ({"data.task.name": "chain_sun"}, "data.task.name=chain_sun: reasoning-gym has no such task; did you m"),
        ({"data.task.val_size": 0}, "data.task.val_size=0 leaves no prompt"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "generate"])
def test_each_mistake_is_one_line_that_begins_with_its_key(
    command: str, values: dict[str, Any], start: str, numbers: Numbers
) -> None:
    if command == "evaluate":
        extra = {"custom_reward_function.path": __file__}  # with no task there is no verifier
        (line,) = check_evaluate(changed(evaluate(), values | extra), world=3, model=numbers)
    else:
        (line,) = check_generate(changed(generate(), values), world=3, model=numbers)
    assert line.startswith(start)


def test_something_scores_and_k_can_be_drawn(numbers: Numbers) -> None:
    def lines(values: dict[str, Any]) -> list[str]:
        return check_evaluate(changed(evaluate(), values), world=1, model=numbers)

    no_task = {"data.task.name": None, "data.val_files": [__file__]}
    (line,) = lines(no_task)
    assert line.startswith("custom_reward_function.path: nothing scores the responses")
    (line,) = lines(no_task | {"custom_reward_function.path": "none.py"})
    assert line == "custom_reward_function.path=none.py: there is no such file"
    (line,) = lines({"evaluation.k": [1, 8, 16, 9]})
    assert line.startswith("evaluation.k=[9, 16]: no more than rollout.n=8")


def test_files_are_there_and_alone(numbers: Numbers, tmp_path: Path) -> None:
    (line,) = check_generate(changed(generate(), {"data.files": [__file__]}), world=1, model=numbers)
    assert line == "data.files and data.task.name=chain_sum are both given; set one of them"
    missing = {"data.files": [str(tmp_path / "none.jsonl")], "data.task.name": None}
    (line,) = check_generate(changed(generate(), missing), world=1, model=numbers)
    assert line == f"data.files: {tmp_path / 'none.jsonl'}: there is no such file"


@pytest.mark.parametrize(
    ("do_sample", "temperature", "n", "told"),
    [
        (None, 0.0, 1, ""),
        (None, 0.5, 4, ""),
        (True, 0.5, 4, ""),
        (False, 0.5, 1, ""),
        (True, 0.0, 1, "key.do_sample=true with key.temperature=0"),
        (False, 0.5, 2, "key.n=2 with key.do_sample=false makes 2 equal"),
        (None, 0.0, 2, "key.n=2 with key.temperature=0 makes 2 equal"),
    ],
)
def test_greedy_responses_are_asked_for_once(do_sample: bool | None, temperature: float, n: int, told: str) -> None:
    sampling = ValidationSamplingConfig(n=n, do_sample=do_sample, temperature=temperature)
    lines = list(check_sampling(sampling, key="key"))
    assert bool(lines) == bool(told)
    assert all(line.startswith(told) for line in lines)

"""Batch arithmetic that does not come out is told with every number of the product."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.config.check_batches import (
    check_data,
    check_microbatches,
    check_optim,
    check_ppo_batches,
    data_parallel,
)
from fusedrl.config.load import load
from fusedrl.config.schema import MegatronConfig, OptimConfig, PPODataConfig
from fusedrl.config.schema.data import TaskConfig
from tests.fusedrl.config.conftest import Numbers, ppo

ACTOR = "actor_rollout_ref.actor"


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 8))
def test_microbatches_are_refused_exactly_where_they_are_not_whole(mini: int, micro: int, dp: int) -> None:
    found = list(check_microbatches(mini, micro, mini_key="m", micro_key="u", dp=dp))
    assert bool(found) == (mini % (dp * micro) != 0)
    assert len(found) <= 1


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 16))
def test_data_parallel_is_what_is_left_of_the_ranks(tp: int, pp: int, dp: int) -> None:
    megatron = MegatronConfig(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp)
    assert data_parallel(megatron, world=tp * pp * dp) == dp


def test_the_shipped_experiment_has_no_problem(numbers: Numbers) -> None:
    models = {"actor": numbers, "critic": numbers}
    for config in (ppo(), load("ppo", ["experiment=arithmetic"])):
        assert list(check_ppo_batches(config, world=4, models=models)) == []


def test_mini_batch_message_shows_prompts_times_samples() -> None:
    found = list(check_ppo_batches(ppo(f"{ACTOR}.ppo_mini_batch_size=96"), world=4, models={}))
    assert found[0] == (
        f"{ACTOR}.ppo_mini_batch_size=96 (samples) does not divide data.train_batch_size=64 prompts x "
        "actor_rollout_ref.rollout.n=4 = 256 samples; set it to 32, 64, 128 or 256"
    )


def test_micro_batch_message_shows_the_share_of_a_replica() -> None:
    (line,) = check_ppo_batches(ppo("critic.ppo_micro_batch_size_per_gpu=24"), world=4, models={})
    assert line == (
        "critic.ppo_micro_batch_size_per_gpu=24 does not divide the 128 samples that each of 2 data-parallel "
        "replicas takes of critic.ppo_mini_batch_size=256; set it to 1, 2, 4, 8, 16 or 32"
    )


def test_actor_and_critic_may_differ_in_micro_batches_only() -> None:
    assert list(check_ppo_batches(ppo("critic.ppo_micro_batch_size_per_gpu=32"), world=4, models={})) == []
    (mini,) = check_ppo_batches(ppo("critic.ppo_mini_batch_size=128"), world=4, models={})
    (epochs,) = check_ppo_batches(ppo("critic.ppo_epochs=2"), world=4, models={})
    assert mini.startswith(f"critic.ppo_mini_batch_size=128 differs from {ACTOR}.ppo_mini_batch_size=256")
    assert epochs.startswith(f"critic.ppo_epochs=2 differs from {ACTOR}.ppo_epochs=1")


def test_a_mini_batch_divides_over_each_models_own_replicas() -> None:
    small = ["data.train_batch_size=2", "actor_rollout_ref.rollout.n=1", f"{ACTOR}.ppo_mini_batch_size=2"]
    config = ppo(*small, f"{ACTOR}.ppo_micro_batch_size_per_gpu=1", "critic.megatron.pipeline_model_parallel_size=1")
    assert list(check_ppo_batches(config, world=4, models={})) == [
        "critic.ppo_mini_batch_size=2 does not divide over 4 data-parallel replicas; make it a multiple of 4"
    ]


def test_forward_only_models_need_an_equal_share_too() -> None:
    config = ppo(
        "algorithm=ppo_kl",
        "data.train_batch_size=2",
        "actor_rollout_ref.rollout.n=1",
        f"{ACTOR}.ppo_mini_batch_size=2",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.ref.megatron.pipeline_model_parallel_size=1",
    )
    (line,) = check_ppo_batches(config, world=4, models={})
    assert line.startswith("actor_rollout_ref.ref.megatron: 2 samples of a step do not divide over its 4 data-parallel")


def test_sequences_longer_than_the_positions_are_refused_for_each_model(numbers: Numbers) -> None:
    config = ppo("data.max_prompt_length=32", "data.max_response_length=33")
    models = {"actor": numbers, "critic": replace(numbers, max_position=65)}
    (line,) = check_ppo_batches(config, world=4, models=models)
    assert line == (
        "data.max_prompt_length=32 + data.max_response_length=33 = 65 tokens exceed the 64 positions of the actor "
        "model; shorten one of them"
    )


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        (["data.train_files=[a.jsonl]"], "data.train_files and data.task.name=chain_sum are both given"),
        (["data.val_files=[a.jsonl]"], "data.val_files and data.task.name=chain_sum are both given"),
        (["data.task.name=null", f"data.val_files=[{__file__}]"], "data.train_files: nothing to train on"),
        (["data.task.val_size=0"], "data.val_files: validation is asked for"),
        (["data.task.train_size=63"], "data.task.train_size=63 is below data.train_batch_size=64"),
    ],
)
def test_data_that_is_missing_or_given_twice_is_refused(overrides: list[str], start: str) -> None:
    (line,) = check_data(ppo(*overrides).data, validates=True)
    assert line.startswith(start)


def test_validation_rows_are_needed_only_where_validation_is_asked_for() -> None:
    data = PPODataConfig(train_files=[__file__])
    assert list(check_data(data, validates=False)) == []
    assert len(list(check_data(data, validates=True))) == 1


def test_every_file_of_rows_that_is_not_there_is_told_by_key(tmp_path: Path) -> None:
    gone, folder = str(tmp_path / "gone"), str(tmp_path)  # a folder may be a dataset: whoever reads it tells
    data = PPODataConfig(train_files=[__file__, gone], val_files=[gone, folder])
    assert list(check_data(data, validates=False)) == [
        f"data.train_files: {gone}: there is no such file",
        f"data.val_files: {gone}: there is no such file",
    ]


@pytest.mark.parametrize(
    ("name", "hint"), [("chain_sums", "did you mean chain_sum"), ("", "lists them"), ("qqqq", "lists them")]
)
def test_a_task_that_reasoning_gym_has_not_is_refused(name: str, hint: str) -> None:
    data = PPODataConfig(train_files=[] if name else [__file__], task=TaskConfig(name=name))
    (line,) = check_data(data, validates=False)
    assert line.startswith(f"data.task.name={name}: reasoning-gym has no such task; ")
    assert hint in line


@pytest.mark.parametrize(
    ("optim", "start"),
    [
        (OptimConfig(betas=[0.9]), "k.betas=[0.9]: needs two numbers"),
        (OptimConfig(lr=1e-6, min_lr=1e-5), "k.min_lr=1e-05 is above k.lr=1e-06"),
        (OptimConfig(lr_warmup_steps=5, lr_decay_steps=5), "k.lr_warmup_steps=5 leaves nothing of k.lr_decay_steps=5"),
    ],
)
def test_optimizer_values_that_contradict_each_other_are_refused(optim: OptimConfig, start: str) -> None:
    (line,) = check_optim(optim, key="k")
    assert line.startswith(start)
    assert list(check_optim(OptimConfig(), key="k")) == []

"""The whole of a run is checked, and everything wrong is told at once."""

import time
from pathlib import Path

import pytest

from fusedrl.config.errors import ConfigError
from fusedrl.config.validate import check_ppo, check_rm, check_sft, require
from tests.fusedrl.config.conftest import Numbers, ppo, rm, sft


def test_the_shipped_experiments_have_no_problem_on_four_ranks(numbers: Numbers) -> None:
    assert check_ppo(ppo(), world=4, models={"actor": numbers, "critic": numbers}) == []
    assert check_sft(sft(), world=4, model=numbers) == []
    assert check_rm(rm(), world=4, model=numbers) == []


def test_problems_of_all_kinds_are_told_together(numbers: Numbers) -> None:
    config = ppo(
        "parallel=pp4",
        "critic.optim.betas=[0.9]",
        "data.max_prompt_length=100",
        "data.task.name=null",
        "trainer.total_training_steps=60",
        "trainer.critic_warmup=60",
        "schedule.method=clever",
    )
    found = check_ppo(config, world=6, models={"actor": numbers})
    starts = [
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=1 x",
        "critic.megatron.tensor_model_parallel_size=1 x",
        "data.max_prompt_length=100 +",
        "data.train_files: nothing",
        "data.val_files: validation",
        "critic.optim.betas",
        "custom_reward_function.path: nothing gives a reward",
        "schedule.method=clever: must be fused, fused_split, serial, interleaved, zero_bubble or file:PATH",
        "trainer.critic_warmup=60 leaves no step",
    ]
    assert [line.startswith(start) for line, start in zip(found, starts, strict=True)] == [True] * len(starts)
    with pytest.raises(ConfigError) as caught:
        require(found)
    assert caught.value.problems == tuple(found)
    require([])


def test_files_that_are_named_must_exist(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("")
    for name, start in (("custom_reward_function.path=", ""), ("schedule.method=", "file:")):
        assert check_ppo(ppo(f"{name}{start}{there}"), world=4, models={}) == []
        (line,) = check_ppo(ppo(f"{name}{start}{tmp_path}/gone"), world=4, models={})
        assert line == f"{name}{start}{tmp_path}/gone: there is no such file"


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        (
            ["algorithm=grpo", "actor_rollout_ref.rollout.n=1"],
            "algorithm.adv_estimator=grpo compares the samples of a prompt",
        ),
        (
            ["algorithm=rloo", "actor_rollout_ref.rollout.n=1"],
            "algorithm.adv_estimator=rloo compares the samples of a prompt",
        ),
        (
            ["algorithm=rloo", "trainer.critic_warmup=3"],
            "trainer.critic_warmup=3: algorithm.adv_estimator=rloo has no critic",
        ),
    ],
)
def test_estimators_without_a_critic_need_groups_and_no_warm_up(overrides: list[str], start: str) -> None:
    found = check_ppo(ppo(*overrides), world=4, models={})
    assert [line.startswith(start) for line in found if not line.startswith("actor_rollout_ref")] == [True]


def test_steps_to_profile_lie_within_the_run() -> None:
    keys = ["trainer.total_training_steps=3", "trainer.profile_steps=[1,3,4]"]
    (line,) = check_ppo(ppo(*keys), world=4, models={})
    assert line == "trainer.profile_steps: [4] lie beyond trainer.total_training_steps=3; leave them out"
    assert check_ppo(ppo("trainer.total_training_steps=3", "trainer.profile_steps=[3]"), world=4, models={}) == []


def test_keys_of_a_critic_that_is_not_built_are_not_checked() -> None:
    broken = ["critic.megatron.tensor_model_parallel_size=3", "critic.optim.betas=[0.9]", "critic.ppo_epochs=9"]
    assert len(check_ppo(ppo(*broken), world=4, models={})) >= 3
    assert check_ppo(ppo(*broken, "algorithm=remax"), world=4, models={}) == []


def test_greedy_responses_divide_over_the_reward_model_s_replicas() -> None:
    keys = ["reward_model.enable=true", "reward_model.model.path=m", "data.train_batch_size=129"]
    keys += ["actor_rollout_ref.rollout.n=4", "actor_rollout_ref.actor.ppo_mini_batch_size=516"]
    keys += ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2"]
    assert check_ppo(ppo(*keys, "algorithm=rloo"), world=4, models={}) == []
    (line,) = check_ppo(ppo(*keys, "algorithm=remax"), world=4, models={})
    assert line.startswith("reward_model.megatron: the greedy responses to 129 prompts")


def test_a_reward_model_needs_its_path() -> None:
    (line,) = check_ppo(ppo("reward_model.enable=true"), world=4, models={})
    assert line.startswith("reward_model.model.path: a value is needed")
    assert check_ppo(ppo("reward_model.enable=true", "reward_model.model.path=m"), world=4, models={}) == []


def test_validation_before_training_counts_as_validation() -> None:
    quiet = ("data.task.val_size=0", "trainer.test_freq=-1")
    assert check_ppo(ppo(*quiet, "trainer.val_before_train=false"), world=4, models={}) == []
    assert len(check_ppo(ppo(*quiet), world=4, models={})) == 1


@pytest.mark.parametrize(("warmup", "problems"), [(4, 0), (5, 1)])
def test_the_actor_learns_in_some_step_of_a_generated_task(warmup: int, problems: int) -> None:
    steps = ("trainer.total_training_steps=null", "trainer.total_epochs=1", "data.task.train_size=383")
    found = check_ppo(ppo(*steps, f"trainer.critic_warmup={warmup}"), world=4, models={})
    assert len(found) == problems
    assert all(line.startswith(f"trainer.critic_warmup={warmup} leaves no step of the 5 steps") for line in found)


def test_huge_sizes_are_answered_at_once() -> None:
    prime = 10**18 + 3
    began = time.process_time()
    found = check_ppo(ppo(f"data.train_batch_size={prime}", f"data.task.train_size={prime}"), world=4, models={})
    assert time.process_time() - began < 5
    assert any(f"{prime} prompts" in line for line in found)


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        (["model.new.alphabet=null"], "model.path: a value is needed"),
        (["model.path=m"], "model.path=m and model.new.alphabet are both given"),
        (["model.new.alphabet=abca"], "model.new.alphabet repeats 'a'"),
        (["megatron.pipeline_model_parallel_size=3"], "megatron.tensor_model_parallel_size=1 x"),
        (["megatron.tensor_model_parallel_size=4", "megatron.pipeline_model_parallel_size=1"], "megatron.tensor"),
        (["data.train_batch_size=31"], "data.train_batch_size=31 does not divide over 2 data-parallel replicas"),
        (["data.micro_batch_size_per_gpu=24"], "data.micro_batch_size_per_gpu=24 does not divide the 64 samples"),
        (["data.max_length=65"], "data.max_length=65 exceeds the model's 64 positions"),
        (["optim.betas=[0.9]"], "optim.betas"),
    ],
)
def test_sft_is_checked_alike(overrides: list[str], start: str, numbers: Numbers) -> None:
    found = check_sft(sft(*overrides), world=4, model=numbers)
    assert found
    assert found[0].startswith(start)


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        (["model.path=null"], "model.path: a value is needed"),
        (["megatron.pipeline_model_parallel_size=3"], "megatron.tensor_model_parallel_size=1 x"),
        (["data.train_batch_size=31"], "data.train_batch_size=31 does not divide over 2 data-parallel replicas"),
        (["data.micro_batch_size_per_gpu=24"], "data.micro_batch_size_per_gpu=24 does not divide the 64 samples"),
        (["data.max_length=65"], "data.max_length=65 exceeds the model's 64 positions"),
        (["optim.betas=[0.9]"], "optim.betas"),
        (["data.use_dynamic_bsz=true", "data.max_token_len_per_gpu=47"], "data.max_token_len_per_gpu=47 is below"),
        (["data.task.val_size=0"], "data.val_files: validation is asked for"),
        (["data.val_files=[a.jsonl]"], "data.val_files and data.task.name=chain_sum are both given"),
        (["data.task.name=null"], "data.train_files: nothing to train on"),
    ],
)
def test_training_of_a_reward_model_is_checked_alike(overrides: list[str], start: str, numbers: Numbers) -> None:
    found = check_rm(rm(*overrides), world=4, model=numbers)
    assert found
    assert found[0].startswith(start)


def test_sft_validates_at_the_end_alone_unless_asked_and_then_needs_rows() -> None:
    assert check_sft(sft("data.task.val_size=0"), world=4) == []
    (line,) = check_sft(sft("data.task.val_size=0", "trainer.test_freq=5"), world=4)
    assert line.startswith("data.val_files: validation is asked for (trainer.test_freq")


@pytest.mark.parametrize("key", ["trainer.val_before_train=true", "loss.margin=1"])
def test_commands_of_one_model_have_no_key_without_an_effect(key: str) -> None:
    for config in (sft, rm):
        with pytest.raises(ConfigError, match="no such key"):
            config(key)


def test_a_share_of_memory_stands_alone_and_needs_counted_costs() -> None:
    assert check_ppo(ppo("schedule.memory_share=0.5"), world=4, models={}) == []
    (line,) = check_ppo(ppo("schedule.memory_share=0.5", "schedule.memory_cap=9"), world=4, models={})
    assert line.startswith("schedule.memory_share=0.5 and schedule.memory_cap=9 are both given")
    (line,) = check_ppo(ppo("schedule.memory_share=0.5", "schedule.costs=constant"), world=4, models={})
    assert line.startswith("schedule.memory_share=0.5 is a share of MiB")

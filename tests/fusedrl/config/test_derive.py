"""Derived sizes agree with each other for any layout and batch that the checks let through."""

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fusedrl.config.derive import clip_range, derive_ppo, derive_rm, derive_sft, describe, to_dict, total_steps
from fusedrl.config.schema import PPOTrainerConfig
from fusedrl.config.validate import check_ppo
from tests.fusedrl.config.conftest import changed, ppo, rm, sft

ACTOR = "actor_rollout_ref.actor"


@settings(max_examples=25, deadline=None)
@given(
    pp=st.sampled_from([1, 2, 4]),
    prompts=st.sampled_from([8, 24, 64]),
    n=st.integers(1, 3),
    parts=st.sampled_from([1, 2, 4]),
    micro=st.sampled_from([1, 2, 3]),
    epochs=st.integers(1, 3),
)
def test_no_sample_is_lost_between_steps_and_micro_batches(
    *, pp: int, prompts: int, n: int, parts: int, micro: int, epochs: int
) -> None:
    mini = prompts * n // parts
    both = {
        "megatron.pipeline_model_parallel_size": pp,
        "ppo_mini_batch_size": mini,
        "ppo_micro_batch_size_per_gpu": micro,
        "ppo_epochs": epochs,
    }
    values = {f"{role}.{name}": value for role in (ACTOR, "critic") for name, value in both.items()}
    config = changed(ppo(), {"data.train_batch_size": prompts, "actor_rollout_ref.rollout.n": n, **values})
    assume(not check_ppo(config, world=4, models={}))
    sizes = derive_ppo(config, world=4)
    actor = sizes.models["actor"]
    assert actor.tp * actor.pp * actor.dp == sizes.ranks == 4
    assert sizes.mini_batches * actor.micro_batches * actor.dp * micro == sizes.samples_per_step == prompts * n
    assert sizes.updates_per_step == epochs * sizes.mini_batches
    assert sizes.models["critic"].micro_batches == actor.micro_batches


def test_a_fused_run_on_four_ranks() -> None:
    sizes = derive_ppo(ppo("algorithm=ppo_kl"), world=4)
    assert (sizes.samples_per_step, sizes.mini_batches, sizes.rollout_groups) == (256, 1, 4)
    staged = changed(ppo(), {"actor_rollout_ref.rollout.pipeline_model_parallel_size": 2})
    assert derive_ppo(staged, world=4).rollout_groups == 2
    assert sizes.max_sequence_length == 24
    assert (sizes.models["actor"].dp, sizes.models["actor"].micro_batches) == (2, 8)
    assert sizes.models["ref"].micro_batches == 8


def test_sizes_print_and_save() -> None:
    for sizes in (derive_ppo(ppo(), world=4), derive_sft(sft(), world=4), derive_rm(rm(), world=4)):
        assert json.loads(json.dumps(to_dict(sizes)))["ranks"] == 4
        assert describe(sizes)[0].startswith("4 ranks; step: ")
    assert describe(derive_ppo(ppo(), world=4))[1] == "actor: tp=1 pp=2 dp=2, 8 micro-batches on each replica"


def test_a_token_budget_tells_the_most_micro_batches_and_the_rows_of_the_longest() -> None:
    budget = {f"{ACTOR}.use_dynamic_bsz": True, f"{ACTOR}.ppo_max_token_len_per_gpu": 100}
    sizes = derive_ppo(changed(ppo(), budget), world=4)
    actor, critic = sizes.models["actor"], sizes.models["critic"]
    assert (actor.micro_batch, actor.micro_batches, actor.token_budget) == (4, 32, 100)  # of 24 tokens; 128 samples
    assert (critic.micro_batch, critic.micro_batches, critic.token_budget) == (16, 8, None)
    assert describe(sizes)[1] == "actor: tp=1 pp=2 dp=2, up to 32 micro-batches of 100 tokens on each replica"
    config = sft()
    dynamic = changed(config, {"data.use_dynamic_bsz": True, "data.max_token_len_per_gpu": 2 * config.data.max_length})
    assert derive_sft(dynamic, world=4).model.micro_batch == 2


def test_a_sample_of_a_reward_model_is_a_pair() -> None:
    config = rm()
    assert describe(derive_rm(config, world=4)) == [
        "4 ranks; step: 128 pairs",
        "model: tp=1 pp=2 dp=2, 4 micro-batches on each replica",
    ]
    dynamic = changed(config, {"data.use_dynamic_bsz": True, "data.max_token_len_per_gpu": 5 * config.data.max_length})
    model = derive_rm(dynamic, world=4).model
    assert (model.micro_batch, model.micro_batches, model.token_budget) == (2, 32, 5 * config.data.max_length)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], (0.2, 0.2)),
        (["clip_ratio=0.1"], (0.1, 0.1)),
        (["clip_ratio_low=0.3"], (0.3, 0.2)),
        (["clip_ratio_high=1.5"], (0.2, 1.5)),
    ],
)
def test_each_side_of_the_clip_range_falls_back_to_clip_ratio(
    overrides: list[str], expected: tuple[float, float]
) -> None:
    assert clip_range(ppo(*(f"{ACTOR}.{item}" for item in overrides))) == expected


def test_steps_come_from_epochs_unless_given() -> None:
    epochs = PPOTrainerConfig(total_epochs=3)
    assert total_steps(epochs, rows=130, batch=64) == 6
    assert total_steps(PPOTrainerConfig(total_training_steps=5, total_epochs=3), rows=130, batch=64) == 5
    with pytest.raises(ValueError, match=r"data\.train_batch_size=64 is above the 63 training rows"):
        total_steps(epochs, rows=63, batch=64)

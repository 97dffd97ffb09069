"""A token budget that cannot work is told by its key, of the models that are built."""

import pytest

from fusedrl.config.check_batches import check_ppo_batches
from fusedrl.config.check_budgets import check_ppo_budgets, check_rm_budget, check_sft_budget
from fusedrl.config.validate import check_sft
from tests.fusedrl.config.conftest import changed, ppo, rm, sft

ACTOR = "actor_rollout_ref.actor"
SWITCH = f"{ACTOR}.use_dynamic_bsz=true"
BUDGET = f"{ACTOR}.ppo_max_token_len_per_gpu"


def both(dp: int) -> dict[str, int]:
    return {"actor": dp, "critic": dp}


def test_a_budget_below_the_longest_sample_is_refused_by_its_key() -> None:
    longest = "data.max_prompt_length=16 + data.max_response_length=8"
    config = ppo(SWITCH, "critic.ppo_max_token_len_per_gpu=23", "critic.forward_max_token_len_per_gpu=24")
    (line,) = check_ppo_budgets(config, dp=both(2))
    assert line == f"critic.ppo_max_token_len_per_gpu=23 is below the longest sample, {longest}; raise it to 24 or more"
    assert list(check_ppo_batches(config, world=4, models={})) == [line]
    assert list(check_ppo_budgets(ppo("critic.ppo_max_token_len_per_gpu=23"), dp=both(2))) == []  # not in use


def test_a_budget_below_the_longest_sample_as_stages_pad_it_is_refused() -> None:
    odd = {"data.max_response_length": 9, "critic.ppo_max_token_len_per_gpu": 25}
    shared = [f"{ACTOR}.megatron.tensor_model_parallel_size=2", f"{ACTOR}.megatron.sequence_parallel=true"]
    assert list(check_ppo_budgets(changed(ppo(SWITCH), odd), dp=both(2))) == []
    (line,) = check_ppo_budgets(changed(ppo(SWITCH, *shared), odd), dp=both(2))
    assert line.startswith("critic.ppo_max_token_len_per_gpu=25 is below the longest sample, data.max_prompt_length=16")
    assert line.endswith("data.max_response_length=9 (padded to 26); raise it to 26 or more")


def test_models_that_are_not_built_need_no_budget() -> None:
    low = {"actor_rollout_ref.ref.log_prob_max_token_len_per_gpu": 1, "reward_model.forward_max_token_len_per_gpu": 1}
    assert list(check_ppo_budgets(changed(ppo(SWITCH), low), dp=both(2))) == []
    built = changed(ppo(SWITCH), low | {f"{ACTOR}.use_kl_loss": True, "reward_model.enable": True})
    assert [line.partition("=")[0] for line in check_ppo_budgets(built, dp=both(2))] == list(low)


def test_samples_of_a_micro_batch_do_not_matter_under_a_budget() -> None:
    odd = f"{ACTOR}.ppo_micro_batch_size_per_gpu=7"
    assert len(list(check_ppo_batches(ppo(odd), world=4, models={}))) == 2
    assert list(check_ppo_batches(ppo(odd, SWITCH), world=4, models={})) == []
    assert len(check_sft(changed(sft(), {"data.micro_batch_size_per_gpu": 7}), world=4)) == 1
    dynamic = {"data.micro_batch_size_per_gpu": 7, "data.use_dynamic_bsz": True}
    assert check_sft(changed(sft(), dynamic), world=4) == []


def test_orders_that_fix_the_number_of_micro_batches() -> None:
    (actor, critic) = check_ppo_budgets(ppo(SWITCH, "schedule.method=file:order.txt"), dp=both(2))
    assert actor.startswith("schedule.method=file:order.txt: an order from a file has one number of micro-batches")
    assert BUDGET in actor
    assert "critic.ppo_max_token_len_per_gpu" in critic
    interleaved = (SWITCH, "parallel=pp4", "schedule.method=interleaved")
    assert list(check_ppo_budgets(ppo(*interleaved), dp=both(1))) == []
    (own,) = check_ppo_budgets(ppo(*interleaved), dp={"actor": 1, "critic": 128})
    assert "critic.ppo_max_token_len_per_gpu" in own
    found = list(check_ppo_budgets(ppo(*interleaved), dp=both(128)))
    assert len(found) == 2
    assert found[0].startswith("schedule.method=interleaved needs micro-batches in multiples of 4, which 2 samples")


@pytest.mark.parametrize("switched_on", [True, False])
def test_a_budget_of_sft_below_its_longest_sample_is_refused(switched_on: bool) -> None:
    length = sft().data.max_length
    config = changed(sft(), {"data.use_dynamic_bsz": switched_on, "data.max_token_len_per_gpu": length - 1})
    told = f"is below the longest sample, data.max_length={length}; raise it to {length} or more"
    lines = [f"data.max_token_len_per_gpu={length - 1} {told}"]
    assert list(check_sft_budget(config)) == (lines if switched_on else [])
    assert check_sft(config, world=4) == (lines if switched_on else [])


def test_a_budget_holds_a_pair_of_the_longest_rows() -> None:
    dynamic = {"data.use_dynamic_bsz": True, "data.max_length": 23}
    (line,) = check_rm_budget(changed(rm(), dynamic | {"data.max_token_len_per_gpu": 45}))
    told = "is below the longest sample, data.max_length=23 in 2 rows; raise it to 46 or more"
    assert line == f"data.max_token_len_per_gpu=45 {told}"
    fits = dynamic | {"data.max_token_len_per_gpu": 46}
    assert list(check_rm_budget(changed(rm(), fits))) == []
    shared = {"megatron.tensor_model_parallel_size": 2, "megatron.sequence_parallel": True}
    (line,) = check_rm_budget(changed(rm(), fits | shared))
    assert line.endswith("data.max_length=23 in 2 rows (padded to 48); raise it to 48 or more")

"""Each pass has the budget of its own keys; a key that is not set follows as the number of samples does."""

from hypothesis import given
from hypothesis import strategies as st

from fusedrl.config.budgets import Budget, ppo_budgets, rm_budget, sft_budget
from fusedrl.rl.token_budget import pack
from tests.fusedrl.config.conftest import changed, ppo, rm, sft

ACTOR, ROLLOUT, REF = (f"actor_rollout_ref.{name}" for name in ("actor", "rollout", "ref"))


def test_without_the_switch_no_pass_has_a_budget() -> None:
    assert ppo_budgets(ppo()) == {}
    assert sft_budget(sft()) is None
    assert rm_budget(rm()) is None


def test_every_pass_follows_the_actors_switch_and_budget() -> None:
    found = ppo_budgets(ppo(f"{ACTOR}.use_dynamic_bsz=true", f"{ACTOR}.ppo_max_token_len_per_gpu=77"))
    assert {name: (each.tokens, each.key) for name, each in found.items()} == {
        "actor": (77, f"{ACTOR}.ppo_max_token_len_per_gpu"),
        "log_prob": (77, f"{ROLLOUT}.log_prob_max_token_len_per_gpu"),
        "ref": (77, f"{REF}.log_prob_max_token_len_per_gpu"),
        "critic": (77, "critic.ppo_max_token_len_per_gpu"),
        "values": (77, "critic.forward_max_token_len_per_gpu"),
        "reward": (77, "reward_model.forward_max_token_len_per_gpu"),
    }


def test_every_pass_has_its_own_switch_and_budget() -> None:
    own = {
        "actor": (f"{ACTOR}.use_dynamic_bsz", f"{ACTOR}.ppo_max_token_len_per_gpu"),
        "log_prob": (f"{ROLLOUT}.log_prob_use_dynamic_bsz", f"{ROLLOUT}.log_prob_max_token_len_per_gpu"),
        "ref": (f"{REF}.log_prob_use_dynamic_bsz", f"{REF}.log_prob_max_token_len_per_gpu"),
        "critic": ("critic.use_dynamic_bsz", "critic.ppo_max_token_len_per_gpu"),
        "reward": ("reward_model.use_dynamic_bsz", "reward_model.forward_max_token_len_per_gpu"),
    }
    for name, (switch, tokens) in own.items():
        found = ppo_budgets(changed(ppo(), {switch: True, tokens: 99}))
        assert found.keys() == ({"critic", "values"} if name == "critic" else {name})
        assert found[name].tokens == 99
    both = changed(ppo(), {"critic.use_dynamic_bsz": True, "critic.forward_max_token_len_per_gpu": 98})
    assert ppo_budgets(both)["values"].tokens == 98
    assert sft_budget(changed(sft(), {"data.use_dynamic_bsz": True})) == Budget(16384, "data.max_token_len_per_gpu")


def test_training_passes_of_interleaved_orders_come_in_multiples_of_pp() -> None:
    asked = ("parallel=pp4", "schedule.method=interleaved", f"{ACTOR}.use_dynamic_bsz=true")
    multiples = {name: each.multiple for name, each in ppo_budgets(ppo(*asked)).items()}
    assert multiples == {"actor": 4, "critic": 4, "log_prob": 1, "ref": 1, "values": 1, "reward": 1}
    shallow = ppo_budgets(ppo(*asked, "critic.megatron.pipeline_model_parallel_size=2"))
    assert (shallow["actor"].multiple, shallow["critic"].multiple) == (4, 2)


def test_rows_are_padded_as_each_models_stages_pad_them() -> None:
    asked = (f"{ACTOR}.use_dynamic_bsz=true", f"{ACTOR}.megatron.tensor_model_parallel_size=2")
    assert {each.pads_to for each in ppo_budgets(ppo(*asked)).values()} == {1}
    shared = ppo(*asked, f"{ACTOR}.megatron.sequence_parallel=true")
    found = {name: each.pads_to for name, each in ppo_budgets(shared).items()}
    assert found == {"actor": 2, "log_prob": 2, "ref": 2, "critic": 2, "values": 2, "reward": 1}
    own = changed(shared, {f"{REF}.megatron.sequence_parallel": False, "critic.megatron.tensor_model_parallel_size": 4})
    found |= {"ref": 1, "critic": 4, "values": 4}
    assert {name: each.pads_to for name, each in ppo_budgets(own).items()} == found
    megatron = {"megatron.tensor_model_parallel_size": 2, "megatron.sequence_parallel": True}
    budget = sft_budget(changed(sft(), {"data.use_dynamic_bsz": True} | megatron))
    assert budget is not None
    assert (budget.pads_to, budget.padded(9), budget.padded(10)) == (2, 10, 10)


def test_a_pair_takes_two_rows_of_a_budget() -> None:
    budget = rm_budget(changed(rm(), {"data.use_dynamic_bsz": True, "data.max_token_len_per_gpu": 60}))
    assert budget == Budget(60, "data.max_token_len_per_gpu", rows=2)
    assert (budget.padded(9), budget.most(7, length=9), budget.most(7, length=10)) == (18, 3, 3)  # 3 pairs each
    assert budget.most(7, length=11) == 4


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=20),
    st.integers(12, 40),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_no_samples_need_more_micro_batches_than_the_longest(
    lengths: list[int], tokens: int, replicas: int, multiple: int, pads_to: int
) -> None:
    budget, lengths = Budget(tokens, "key", multiple, pads_to), lengths * multiple
    most = budget.most(len(lengths), length=9)

    def count(of: list[int]) -> int:
        return len(pack(of * replicas, tokens=tokens, replicas=replicas, multiple=multiple, pads_to=pads_to)[0])

    assert count(lengths) <= most == count([9] * len(lengths))


@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=12),
    tokens=st.integers(24, 120),
    pads_to=st.sampled_from([1, 2, 4]),
)
def test_no_micro_batch_is_larger_than_those_a_budget_promises(lengths: list[int], tokens: int, pads_to: int) -> None:
    promised = Budget(tokens, "key", pads_to=pads_to).shapes(len(lengths), length=20)
    for (piece,) in zip(*pack(lengths, tokens=tokens, pads_to=pads_to), strict=True):
        longest = max(lengths[i] for i in piece)
        assert any(len(piece) <= rows and longest <= length for rows, length in promised)

"""Layouts that do not divide are told with the key, the numbers and what would fit; those that do are let through."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.config.check_layout import (
    check_model,
    check_ppo_layouts,
    check_ranks,
    check_tensor_split,
    layouts,
    needs_reference,
)
from fusedrl.config.schema import MegatronConfig
from fusedrl.config.schema.schedule import METHODS
from fusedrl.pipeline.plan import SPLITTING
from tests.fusedrl.config.conftest import Numbers, changed, ppo

PP = "pipeline_model_parallel_size"
TP = "tensor_model_parallel_size"


def megatron(*, tp: int = 1, pp: int = 1, cp: int = 1) -> MegatronConfig:
    return MegatronConfig(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, context_parallel_size=cp)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 3), st.integers(1, 32))
def test_ranks_are_refused_exactly_where_tp_x_cp_x_pp_does_not_divide_them(
    tp: int, pp: int, cp: int, world: int
) -> None:
    assert bool(list(check_ranks(megatron(tp=tp, pp=pp, cp=cp), key="k", world=world))) == (world % (tp * cp * pp) != 0)


@given(st.integers(1, 40), st.integers(1, 12))
def test_layers_are_refused_exactly_where_stages_do_not_divide_them(layers: int, pp: int) -> None:
    found = list(check_model(megatron(pp=pp), key="k", numbers=Numbers(num_layers=layers)))
    assert bool(found) == (layers % pp != 0)


@given(st.integers(1, 40), st.integers(1, 12), st.sampled_from(["v", "interleaved"]))
def test_layers_divide_over_two_stages_a_rank_where_they_are_placed_so(layers: int, pp: int, placement: str) -> None:
    numbers = Numbers(num_layers=layers)
    found = list(check_model(megatron(pp=pp), key="k", numbers=numbers, placement=placement))
    assert bool(found) == (layers % (2 * pp) != 0)
    if found and layers % pp == 0:
        assert found == [
            f"k.{PP}={pp} with schedule.placement={placement} makes {2 * pp} stages; they do not divide the model's "
            f"{layers} layers; use schedule.placement=line or another {PP}"
        ]


def test_placement_is_that_of_actor_and_critic() -> None:
    config = ppo()
    placed = replace(config, schedule=replace(config.schedule, placement="v"))
    six = {role: Numbers(num_layers=6) for role in ("actor", "critic", "ref")}  # on two ranks: not over four stages
    assert [line for line in check_ppo_layouts(config, world=2, models=six) if "layers" in line] == []
    found = [line.partition("=")[0] for line in check_ppo_layouts(placed, world=2, models=six) if "layers" in line]
    assert found == [f"actor_rollout_ref.actor.megatron.{PP}", f"critic.megatron.{PP}"]


@given(st.integers(1, 16), st.integers(1, 16), st.integers(1, 16), st.integers(1, 8))
def test_tensor_split_is_refused_exactly_where_a_part_does_not_divide(heads: int, kv: int, ffn: int, tp: int) -> None:
    numbers = Numbers(num_heads=heads, num_kv_heads=kv, ffn_hidden_size=ffn)
    found = list(check_tensor_split("k", tp, numbers=numbers))
    assert bool(found) == any(part % tp for part in (heads, kv, ffn))


def test_messages_name_key_numbers_and_what_fits() -> None:
    assert list(check_ranks(megatron(tp=2, pp=3), key="critic.megatron", world=4)) == [
        f"critic.megatron.{TP}=2 x critic.megatron.{PP}=3 = 6 does not divide the 4 ranks of this job; "
        "start a multiple of 6 ranks, or choose sizes that make 1, 2 or 4"
    ]
    numbers = Numbers(num_layers=30, num_heads=9, num_kv_heads=3, ffn_hidden_size=1536)
    assert list(check_model(megatron(tp=2, pp=4), key="critic.megatron", numbers=numbers)) == [
        f"critic.megatron.{PP}=4 does not divide the model's 30 layers; set it to 1, 2, 3, 5, 6 or 10",
        f"critic.megatron.{TP}=2 does not divide the model's 9 attention heads, 3 key-value heads; set it to 1 or 3",
    ]


def test_ranks_that_share_rows_are_told_where_they_do_not_divide_the_world() -> None:
    (found,) = check_ranks(MegatronConfig(context_parallel_size=2, tensor_model_parallel_size=2), key="k", world=6)
    assert found.startswith(f"k.{TP}=2 x k.context_parallel_size=2 x k.{PP}=1 = 4 does not divide the 6 ranks")


def test_packed_rows_are_not_shared_by_ranks() -> None:
    both = MegatronConfig(context_parallel_size=2, use_remove_padding=True)
    (found,) = check_ranks(both, key="k", world=2)
    assert found.startswith("k.use_remove_padding=true and k.context_parallel_size=2: ranks share padded rows alone")


def test_only_the_models_that_are_built_are_checked() -> None:
    assert set(layouts(ppo())) == {"actor", "critic"}
    with_all = ppo("algorithm=ppo_kl", "reward_model.enable=true")
    assert set(layouts(with_all)) == {"actor", "critic", "ref", "reward"}


@pytest.mark.parametrize(
    ("override", "needed"),
    [
        ("trainer.seed=0", False),
        ("algorithm.use_kl_in_reward=true", True),
        ("actor_rollout_ref.actor.use_kl_loss=true", True),
    ],
)
def test_a_reference_is_needed_where_a_kl_is_used(override: str, needed: bool) -> None:
    assert needs_reference(ppo(override)) is needed


def test_each_role_is_checked_against_its_own_numbers(numbers: Numbers) -> None:
    config = ppo("algorithm=ppo_kl", f"actor_rollout_ref.ref.megatron.{PP}=4")
    models = {"actor": numbers, "critic": numbers, "ref": replace(numbers, num_layers=6)}
    assert list(check_ppo_layouts(config, world=4, models=models)) == [
        f"actor_rollout_ref.ref.megatron.{PP}=4 does not divide the model's 6 layers; set it to 1, 2, 3 or 6"
    ]


def test_rollout_split_is_checked_against_ranks_and_heads(numbers: Numbers) -> None:
    config = ppo(f"actor_rollout_ref.rollout.{TP}=4")
    (heads,) = check_ppo_layouts(config, world=4, models={"actor": numbers})
    assert heads.startswith(f"actor_rollout_ref.rollout.{TP}=4 does not divide the model's 2 key-value heads")
    (ranks,) = check_ppo_layouts(config, world=2, models={})
    assert ranks.startswith(f"actor_rollout_ref.rollout.{TP}=4 does not divide the 2 ranks")


def test_a_generating_pipeline_is_checked_against_ranks_layers_and_cache(numbers: Numbers) -> None:
    key = "actor_rollout_ref.rollout"
    config = ppo(
        "data.max_prompt_length=30", "data.max_response_length=20", f"{key}.{PP}=4", f"{key}.max_total_tokens=199"
    )
    layers, cache = check_ppo_layouts(config, world=4, models={"actor": replace(numbers, num_layers=6)})
    assert layers == f"{key}.{PP}=4 does not divide the model's 6 layers; set it to 1, 2, 3 or 6"
    assert cache.startswith(f"{key}.max_total_tokens=199 is below 200: 4 batches in flight x")
    (ranks, _) = check_ppo_layouts(config, world=2, models={})
    assert ranks.startswith(f"{key}.{TP}=1 x {key}.{PP}=4 = 4 does not divide the 2 ranks")
    assert list(check_ppo_layouts(changed(config, {f"{key}.batches_in_flight": 3}), world=4, models={})) == []


def test_vllm_has_neither_stages_nor_our_cache() -> None:
    key = "actor_rollout_ref.rollout"
    config = ppo(f"{key}.name=vllm", f"{key}.{PP}=2", f"{key}.max_total_tokens=9999")
    assert [line.split("=")[0] for line in check_ppo_layouts(config, world=4, models={})] == [
        f"{key}.{PP}",
        f"{key}.max_total_tokens",
    ]


@pytest.mark.parametrize("size", [TP, PP])
def test_actor_and_critic_may_have_layouts_of_their_own(size: str) -> None:
    config = ppo("parallel=single", f"critic.megatron.{size}=2")
    assert list(check_ppo_layouts(config, world=4, models={})) == []
    (line,) = check_ppo_layouts(config, world=3, models={})
    assert line.startswith(f"critic.megatron.{TP}=")


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 4), st.sampled_from(["uniform", "block"]))
def test_recomputed_units_are_refused_exactly_where_they_do_not_divide_a_stage(
    each: int, unit: int, pp: int, method: str
) -> None:
    asked = replace(megatron(pp=pp), recompute_granularity="full", recompute_method=method, recompute_num_layers=unit)
    numbers = Numbers(num_layers=each * pp)
    found = list(check_model(asked, key="k", numbers=numbers))
    assert bool(found) == (method == "uniform" and each % unit != 0)
    if found:
        assert found[0].startswith(f"k.recompute_num_layers={unit} does not divide the {each} layers of a stage")
    assert list(check_model(replace(asked, recompute_granularity="selective"), key="k", numbers=numbers)) == []


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 12))
def test_listed_layers_are_refused_exactly_where_they_are_not_the_models(
    each: list[int], stages: int, layers: int
) -> None:
    asked = replace(megatron(pp=stages), pipeline_layers=each)
    found = list(check_model(asked, key="k", numbers=Numbers(num_layers=layers)))
    assert bool(found) == (len(each) != stages or sum(each) != layers)
    assert all(line.startswith(f"k.pipeline_layers={each} ") for line in found)


def test_listed_layers_are_of_stages_not_of_ranks(numbers: Numbers) -> None:
    asked = replace(megatron(pp=2), pipeline_layers=[1, 1, 1, 1])
    assert list(check_model(asked, key="k", numbers=numbers, placement="v")) == []
    (found,) = check_model(asked, key="k", numbers=numbers)
    assert found == "k.pipeline_layers=[1, 1, 1, 1] has 4 numbers, the model has 2 stages; give one for each"


def test_recomputed_units_divide_every_stage(numbers: Numbers) -> None:
    asked = replace(megatron(pp=2), pipeline_layers=[1, 3], recompute_granularity="full", recompute_num_layers=3)
    (found,) = check_model(asked, key="k", numbers=numbers)
    assert found.startswith("k.recompute_num_layers=3 does not divide the 1 layers of a stage; set it to 1")


def test_critic_and_reference_take_the_actors_first_stage(numbers: Numbers) -> None:
    name = "num_layers_in_first_pipeline_stage"
    config = ppo("algorithm=ppo_kl", f"actor_rollout_ref.actor.megatron.{name}=4", "parallel=pp2")
    models = dict.fromkeys(("actor", "critic", "ref"), numbers)
    assert [line.partition("=")[0] for line in check_ppo_layouts(config, world=2, models=models)] == [
        f"{key}.megatron.{name}" for key in ("actor_rollout_ref.actor", "critic", "actor_rollout_ref.ref")
    ]


@pytest.mark.parametrize("method", METHODS)
def test_splitting_methods_are_refused_where_whole_layers_are_computed_again(method: str) -> None:
    config = ppo()
    config = replace(config, schedule=replace(config.schedule, method=method))
    full = changed(config, {"critic.megatron.recompute_granularity": "full"})
    selective = changed(config, {"critic.megatron.recompute_granularity": "selective"})
    found = list(check_ppo_layouts(full, world=2, models={}))
    assert found == (
        [
            f"schedule.method={method} splits backwards, which critic.megatron.recompute_granularity=full does not "
            "allow; use selective, or a method other than fused_split and zero_bubble"
        ]
        if method in SPLITTING
        else []
    )
    assert list(check_ppo_layouts(selective, world=2, models={})) == []

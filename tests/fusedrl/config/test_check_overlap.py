"""Gathering parameters beside other work needs what Megatron-Core needs for it, told by key."""

import pytest

from fusedrl.config.check_overlap import check_overlap, check_ppo_overlap
from fusedrl.config.schema import MegatronConfig
from fusedrl.config.validate import check_sft
from tests.fusedrl.config.conftest import ppo, sft

KEYS = {
    (False, False): "k.use_distributed_optimizer=true and k.overlap_grad_reduce=true; set both",
    (True, False): "k.overlap_grad_reduce=true; set it",
    (False, True): "k.use_distributed_optimizer=true; set it",
}


@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("gather", [False, True])
def test_gathers_are_refused_exactly_where_what_they_need_is_off(distributed: bool, reduce: bool, gather: bool) -> None:
    options = {"use_distributed_optimizer": distributed, "overlap_grad_reduce": reduce, "overlap_param_gather": gather}
    told = KEYS.get((distributed, reduce)) if gather else None
    expected = [] if told is None else [f"k.overlap_param_gather=true needs {told}"]
    assert list(check_overlap(MegatronConfig(**options), key="k")) == expected


def test_critic_follows_the_actor_and_each_is_told() -> None:
    key = "actor_rollout_ref.actor.megatron"
    found = list(check_ppo_overlap(ppo(f"{key}.overlap_param_gather=true")))
    assert [line.partition("=")[0] for line in found] == [
        f"{key}.overlap_param_gather",
        "critic.megatron.overlap_param_gather",
    ]
    others = [f"{key}.use_distributed_optimizer=true", f"{key}.overlap_grad_reduce=true"]
    assert list(check_ppo_overlap(ppo(f"{key}.overlap_param_gather=true", *others))) == []


def test_sft_is_checked_alike() -> None:
    found = check_sft(sft("megatron.overlap_param_gather=true"), world=4)
    assert len([line for line in found if line.startswith("megatron.overlap_param_gather=true needs")]) == 1

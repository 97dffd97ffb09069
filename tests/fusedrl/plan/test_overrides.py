"""Arguments that the trainer takes: loaded through its own configuration, without a problem on the plan's ranks."""

from pathlib import Path

import pytest

from fusedrl.config.check_layout import layouts
from fusedrl.config.load import load
from fusedrl.config.validate import check_ppo
from fusedrl.plan.calls import Limits, Way
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.overrides import not_taken, overrides
from fusedrl.plan.planner import Plan, best_plan
from fusedrl.plan.search.find import Settings
from tests.fusedrl.plan.pricers import tiny_pricer

REST = ["experiment=arithmetic", "algorithm.use_kl_in_reward=true", "reward_model.enable=true"]
NAMES = {"actor_train": "actor", "critic_train": "critic", "ref": "ref", "reward": "reward"}


def check(plan: Plan, tmp_path: Path) -> None:
    arguments = [*REST, f"reward_model.model.path={tmp_path}", *overrides(plan)]
    config = load("ppo", arguments)
    numbers = {role: plan.pricer.models[role].arch for role in ("actor", "critic", "ref", "reward")}
    world = plan.pricer.costs.cluster.world
    assert check_ppo(config, world=world, models=numbers) == []
    found = {role: megatron for role, (_, megatron) in layouts(config).items()}
    for call, role in NAMES.items():
        way = plan.ways[call]
        assert found[role].tensor_model_parallel_size == way.tp
        assert found[role].pipeline_model_parallel_size == way.pp
    rollout = config.actor_rollout_ref.rollout
    assert rollout.tensor_model_parallel_size == plan.ways["actor_gen"].tp
    assert rollout.max_running_requests == plan.ways["actor_gen"].size
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == plan.ways["actor_train"].size


def test_the_best_plan_of_four_ranks_is_taken(tmp_path: Path) -> None:
    pricer = tiny_pricer("cpu_1x4", own_inference=False)
    plan = best_plan(pricer, limits=Limits(smallest=4, recompute=False), settings=Settings(restarts=4))
    assert plan is not None
    check(plan, tmp_path)
    assert not_taken(plan) == []


@pytest.mark.parametrize("fused", [True, False])
def test_plans_of_other_layouts_are_taken(tmp_path: Path, fused: bool) -> None:
    pricer, whole = tiny_pricer("cpu_1x4"), Mesh(0, 4)
    wide, deep = Way(whole, tp=2, pp=2, size=160), Way(whole, pp=2, size=160)
    ways = {
        "actor_gen": Way(whole, tp=2, size=8),
        "actor_logp": Way(whole, size=160) if fused else wide,
        "ref": Way(whole, size=80, resident=False),
        "reward": deep,
        "critic_values": deep,
        "actor_train": Way(whole, tp=2, pp=2, size=80, recompute=True),
        "critic_train": deep,
    }
    plan = Plan("by hand", pricer, ways, fused)
    check(plan, tmp_path)
    config = load("ppo", [*REST, f"reward_model.model.path={tmp_path}", *overrides(plan)])
    assert config.schedule.method == ("fused" if fused else "serial")
    assert not config.actor_rollout_ref.ref.megatron.resident
    assert config.reward_model.megatron.resident
    assert config.actor_rollout_ref.actor.inference_megatron.enable == fused
    assert config.actor_rollout_ref.actor.megatron.recompute_granularity == "full"
    assert config.critic.megatron.recompute_granularity is None


def test_calls_on_ranks_of_their_own_are_taken(tmp_path: Path) -> None:
    pricer, whole, left, right = tiny_pricer("cpu_1x4"), Mesh(0, 4), Mesh(0, 2), Mesh(2, 2)
    ways = {
        "actor_gen": Way(whole, tp=2, size=8),
        "actor_logp": Way(whole, size=80),
        "ref": Way(left, size=80, resident=False),
        "reward": Way(right, pp=2, size=80),
        "critic_values": Way(right, pp=2, size=80),
        "actor_train": Way(left, tp=2, size=80),
        "critic_train": Way(right, pp=2, size=80),
    }
    plan = Plan("by hand", pricer, ways, fused=False)
    check(plan, tmp_path)
    config = load("ppo", [*REST, f"reward_model.model.path={tmp_path}", *overrides(plan)])
    ranks = {role: megatron.ranks for role, (_, megatron) in layouts(config).items()}  # type: ignore[attr-defined]
    assert ranks == {"actor": "0-1", "critic": "2-3", "ref": "0-1", "reward": "2-3"}
    assert config.actor_rollout_ref.actor.inference_megatron.enable
    assert config.actor_rollout_ref.actor.inference_megatron.ranks is None
    assert not config.critic.inference_megatron.enable
    assert config.actor_rollout_ref.rollout.ranks is None
    assert not_taken(plan) == []


def test_what_the_trainer_cannot_do_is_named() -> None:
    pricer, whole = tiny_pricer("cpu_1x4"), Mesh(0, 4)
    ways = {call: Way(whole, size=80) for call in ("actor_gen", "actor_logp", "ref", "reward", "critic_values")}
    ways |= {call: Way(whole, size=80, zero=True) for call in ("actor_train", "critic_train")}
    assert "ZeRO-3 of actor_train" in not_taken(Plan("by hand", pricer, ways, fused=False))

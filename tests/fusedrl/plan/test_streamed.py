"""Streamed steps: what reading costs beyond the last token, the memory of copies, a plan that the trainer takes."""

from pathlib import Path

import numpy as np

from fusedrl.config.load import load
from fusedrl.config.validate import check_ppo
from fusedrl.plan.build import TRAINING
from fusedrl.plan.calls import CALLS, Limits, Way
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.overrides import overrides
from fusedrl.plan.planner import Plan, all_ways, solve
from fusedrl.plan.price import Pricer
from fusedrl.plan.search.find import Settings
from fusedrl.plan.streamed import STREAMED, beyond, may_stream, stream_costs, streamed_price
from fusedrl.plan.workload import Workload
from tests.fusedrl.plan.pricers import llama_pricer, tiny_pricer


def with_lengths(pricer: Pricer, lengths: np.ndarray) -> Pricer:
    work = Workload(lengths, prompt=256, longest=int(lengths.max()), mini_batches=4)
    return Pricer(pricer.costs, pricer.models, work)


def reading(pricer: Pricer, way: Way) -> float:
    """Seconds of all reading, shared out evenly."""
    return sum(stream_costs(pricer, way).infer_ms.values()) * pricer.work.tokens / way.dp / 1000


def test_a_long_tail_hides_reading_and_equal_lengths_do_not() -> None:
    pricer, way = llama_pricer("h100_1x8"), Way(Mesh(0, 8), size=32)
    alike = with_lengths(pricer, np.full(256, 512))
    tailed = with_lengths(pricer, np.array([256] * 252 + [4096] * 4))
    assert beyond(alike, way) > 0.95 * reading(alike, way)
    assert beyond(tailed, way) < 0.2 * reading(tailed, way)


def test_copies_of_frozen_models_are_held() -> None:
    pricer, way = llama_pricer("h100_1x8"), Way(Mesh(0, 8), tp=2, size=32)
    price, generated = streamed_price(pricer, way), pricer.price(CALLS["actor_gen"], way)
    frozen = sum(
        2 * pricer.models[role].stage_parameters(range(32), first=True, last=True, tp=2) for role in ("ref", "reward")
    )
    assert price.held.total == frozen
    assert price.burst == generated.running.total


def test_engines_of_one_stage_on_all_ranks_stream() -> None:
    pricer = tiny_pricer("cpu_1x4")
    assert may_stream(pricer, Way(Mesh(0, 4), tp=2))
    assert not may_stream(pricer, Way(Mesh(0, 4), pp=2))
    assert not may_stream(pricer, Way(Mesh(0, 2)))


def test_the_trainer_takes_the_best_streamed_plan(tmp_path: Path) -> None:
    pricer = tiny_pricer("cpu_1x4")
    every = all_ways(pricer, limits=Limits(smallest=4, recompute=False))
    plan = solve("streamed", pricer, every, settings=Settings(restarts=4), modes=((True, True), (False, True)))
    assert isinstance(plan, Plan)
    assert plan.streamed
    assert len({plan.ways[call] for call in STREAMED}) == 1
    assert plan.phases["inference"] == 0
    assert {unit for unit, *_ in plan.spans()} >= {"generation+inference"}
    assert set(plan.ways) == {*STREAMED, *TRAINING}
    rest = ["experiment=arithmetic", "algorithm.use_kl_in_reward=true", "reward_model.enable=true"]
    config = load("ppo", [*rest, f"reward_model.model.path={tmp_path}", *overrides(plan)])
    assert config.actor_rollout_ref.rollout.inference == "instances"
    numbers = {role: model.arch for role, model in pricer.models.items()}
    assert check_ppo(config, world=4, models=numbers) == []

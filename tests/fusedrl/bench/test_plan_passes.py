"""Ops' times: those of the costs, for the samples' own micro-batches."""

from dataclasses import replace

import numpy as np
import pytest

from fusedrl.bench.plan_passes import (
    load_seconds,
    micro_batches,
    mini_batches,
    program_of,
    shape_of,
    shapes,
    times_of,
    update_seconds,
)
from fusedrl.bench.plan_scene import Part, Scene
from fusedrl.plan.calls import CALLS, Way
from fusedrl.plan.planner import Plan
from fusedrl.plan.price import Pricer
from fusedrl.plan.workload import Workload
from tests.fusedrl.bench.scenes import BOTH, ROWS, plan_of, pricer, scenes


def alike() -> Pricer:
    """Eight samples of 80 tokens: packing leaves no choice."""
    return replace(pricer(), work=Workload(np.full(8, 64), prompt=16, longest=64, mini_batches=2))


def scene_of(way: Way, *, fused: bool = False) -> Scene:
    plan = plan_of("all alike", way)
    return Scene.of(Plan("all alike", alike(), plan.ways, fused=fused))


@pytest.mark.parametrize(
    "way", [Way(BOTH, pp=2, size=200), Way(BOTH, size=ROWS, recompute=True), Way(BOTH, tp=2, size=200)]
)
def test_samples_all_alike_take_what_their_price_says(way: Way) -> None:
    """Passes of equal micro-batches, and the updates after them: the sums that fusedrl.plan.price has as formulas."""
    scene = scene_of(way)
    price = scene.pricer.price(CALLS["actor_train"], way)
    unit = scene.units.index(("actor_train",))
    passes = sum(
        program_of(scene, unit, samples).planned.makespan / 1e3 for samples in mini_batches(scene, "actor_train")
    )
    least = price.parts["compute"] + price.parts["bubble"]
    assert least * (1 - 1e-6) <= passes <= (least + price.parts["messages"]) * (1 + 1e-6)  # messages may be hidden
    slowest = max(update_seconds(scene, "actor_train", Part(0, 0, stage)) for stage in range(way.pp))
    assert 2 * slowest == pytest.approx(price.parts["gradients"] + price.parts["optimizer"])


@pytest.mark.parametrize("call", ["actor_train", "ref"])
def test_every_sample_is_in_one_micro_batch_of_a_pass_within_the_budget(call: str) -> None:
    scene = Scene.of(plan_of("wide", Way(BOTH, size=ROWS)))
    passes = mini_batches(scene, call)
    found = [micro_batches(scene, call, samples) for samples in passes]
    assert [sorted(i for replica in each for rows in replica for i in rows) for each in found] == [
        list(samples) for samples in passes
    ]
    assert [i for samples in passes for i in samples] == list(range(8))
    assert len(passes) == (2 if call == "actor_train" else 1)
    work = scene.pricer.work
    assert max(tokens for each in passes for r in shapes(scene, call, each) for tokens, _ in r) <= ROWS
    total = sum(tokens for each in passes for r in shapes(scene, call, each) for tokens, _ in r)
    assert total == work.response_N.sum() + 8 * work.prompt


def test_a_shape_is_its_tokens_and_their_mean_length() -> None:
    assert shape_of([30, 10]) == (40.0, (900 + 100) / 40)


def test_messages_are_paid_where_they_arrive() -> None:
    scene = scene_of(Way(BOTH, pp=2, size=ROWS))
    times = times_of(scene, "critic_train")
    where = {"rows": 80.0, "length": 80.0}
    message = 1e3 * scene.pricer.costs.message(80 * 32 * 4, across_nodes=False)
    lone = times_of(scene_of(Way(BOTH, pp=1, size=ROWS)), "critic_train")
    both = sum(times.forward(stage, **where) for stage in range(2))
    assert both == pytest.approx(lone.forward(0, **where) + message)
    assert sum(times.backward(s, **where) for s in range(2)) == pytest.approx(lone.backward(0, **where) + message)


def test_split_weights_are_gathered_for_each_pass_and_not_after_an_update() -> None:
    plain, split = (scene_of(Way(BOTH, size=ROWS, zero=zero)) for zero in (False, True))
    where = {"rows": 80.0, "length": 80.0}
    nbytes = times_of(plain, "actor_train").parameters(0) * 4
    gather, scatter = (
        plain.pricer.costs.collective(kind, nbytes, ranks=2, nodes=1) for kind in ("all_gather", "reduce_scatter")
    )
    a, b = times_of(plain, "actor_train"), times_of(split, "actor_train")
    assert b.forward(0, **where) - a.forward(0, **where) == pytest.approx(1e3 * gather)
    assert b.backward(0, **where) - a.backward(0, **where) == pytest.approx(1e3 * (gather + scatter))
    part = Part(0, 0, 0)
    assert update_seconds(plain, "actor_train", part) - update_seconds(split, "actor_train", part) == pytest.approx(
        gather + scatter
    )


def test_only_frozen_weights_that_wait_elsewhere_are_loaded() -> None:
    scene, part = scenes()[1], Part(0, 0, 0)
    nbytes = times_of(scene, "reward").parameters(0) * 4
    assert load_seconds(scene, "reward", part) == scene.pricer.costs.host_copy(nbytes) > 0
    assert load_seconds(scene, "ref", part) == load_seconds(scene, "actor_logp", part) == 0


def test_a_fused_pass_runs_both_models_in_one_order() -> None:
    scene = scenes()[0]
    program = program_of(scene, 5, mini_batches(scene, "actor_train")[0])
    assert [model.name for model in program.problem.models] == ["actor_train", "critic_train"]
    assert [model.placement for model in program.problem.models] == [(0, 1), (1, 0)]

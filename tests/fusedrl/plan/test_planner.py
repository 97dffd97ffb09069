"""The plan against every plan there is, on ranks few enough to try all; what it reports adds up."""

import pytest

from fusedrl.plan.build import table
from fusedrl.plan.calls import CALLS, Limits, Way, ways
from fusedrl.plan.heuristics import HEURISTICS, heuristic_plans
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.planner import MODES, Plan, all_ways, best_plan, nearest, solve, streaming
from fusedrl.plan.price import Pricer
from fusedrl.plan.search.find import Settings
from fusedrl.plan.search.space import exhaustive
from tests.fusedrl.plan.pricers import llama_pricer, small_work, tiny_pricer

STAGED = ((True, False), (False, False))


@pytest.fixture(scope="module")
def node() -> Plan:
    pricer = llama_pricer("h100_1x8", samples=64)
    every = all_ways(pricer, limits=Limits(smallest=4))
    plan = solve("staged", pricer, every, settings=Settings(restarts=4), modes=STAGED)
    assert plan is not None
    return plan


@pytest.mark.parametrize("seed", range(2))
def test_plan_equals_the_best_of_all_plans(seed: int) -> None:
    """Two ranks, each call in its three layouts: 3 to the 7th choices apart, fewer fused."""
    pricer = tiny_pricer(work=small_work(samples=4, mini_batches=2, seed=seed))
    every = {name: _layouts(pricer, name) for name in CALLS}
    plan = solve("best", pricer, every, settings=Settings())
    own = {False: every, True: streaming(pricer, every)}
    spaces = [table(pricer, own[streamed], fused=fused, streamed=streamed).space for fused, streamed in MODES]
    best = [exhaustive(space) for space in spaces]
    assert plan is not None
    assert plan.proved
    assert plan.seconds == min(found[1].seconds for found in best if found is not None)


def _layouts(pricer: Pricer, name: str) -> list[Way]:
    call, cluster = CALLS[name], pricer.costs.cluster
    model = pricer.models[call.model]
    found = ways(
        call,
        model,
        pricer.work,
        cluster=cluster,
        meshes=[Mesh(0, 2)],
        widths=pricer.costs.widths(model),
        limits=Limits(recompute=False, offload=False),
    )
    return list({way.shape: way for way in found}.values())


def test_phases_are_the_step_and_units_end_in_it(node: Plan) -> None:
    assert sum(node.phases.values()) == pytest.approx(node.seconds, rel=1e-12)
    assert max(end for *_, end in node.spans()) == pytest.approx(node.seconds, rel=1e-12)
    assert {unit for unit, *_ in node.spans()} >= {"actor_gen", "actor_logp", "ref", "reward", "critic_values"}


def test_memory_by_kind_adds_up_to_the_space_s(node: Plan) -> None:
    room = node.pricer.costs.cluster.device.room
    most = max(held.total for held in node.memory().values())
    assert most - room == pytest.approx(node.outcome.excess, abs=room * 1e-9)
    assert node.misfit() is None


def test_no_heuristic_is_faster_and_all_fit_or_say_why(node: Plan) -> None:
    plans = heuristic_plans(node.pricer, names=list(HEURISTICS), settings=Settings(), limits=Limits())
    for name, plan in plans.items():
        assert plan is not None, name
        assert plan.misfit() is not None or plan.seconds >= node.seconds, name
    assert plans["real_heuristic"] is not None
    assert {(way.tp, way.mesh.count) for way in plans["real_heuristic"].ways.values()} == {(8, 8)}
    assert plans["split"] is not None
    assert {str(way.mesh) for call, way in plans["split"].ways.items() if call in ("reward", "critic_train")} == {"4-7"}
    assert plans["one_layout"] is not None
    assert len({way.shape for way in plans["one_layout"].ways.values()}) == 1
    assert plans["dschat"] is not None
    assert plans["dschat"].ways["actor_train"].zero
    known = all_ways(
        node.pricer, limits=Limits(smallest=8), known=[plan for plan in plans.values() if plan is not None]
    )
    assert set(plans["real_heuristic"].ways.values()) <= {way for kept in known.values() for way in kept}
    assert not any(way.zero for kept in known.values() for way in kept)  # the trainer has no ZeRO-3


def test_what_does_not_fit_is_told_with_what_weighs_most() -> None:
    pricer = llama_pricer("h100_1x1", actor="llama_70b", samples=16)
    assert best_plan(pricer, limits=Limits(), settings=Settings()) is None
    told = nearest("nearest", pricer, all_ways(pricer, limits=Limits())).misfit()
    assert told is not None
    assert "GiB too much" in told
    assert "optimizer" in told


def test_trained_layouts_serve_inference_where_there_is_no_other() -> None:
    pricer = tiny_pricer("cpu_1x4", own_inference=False)
    every = all_ways(pricer, limits=Limits(smallest=4, recompute=False))
    plan = solve("staged", pricer, every, settings=Settings(restarts=4), modes=STAGED)
    assert plan is not None
    assert plan.ways["actor_logp"].shape == plan.ways["actor_train"].shape
    assert plan.ways["critic_values"].shape == plan.ways["critic_train"].shape

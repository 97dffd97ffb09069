"""The plans that are tried fit, differ, and lie between the best and the slowest."""

from dataclasses import replace

import pytest

from fusedrl.bench import plan_choice
from fusedrl.bench.plan_choice import chosen, dividing, draw, slowest
from fusedrl.plan.analytic import AnalyticCosts
from fusedrl.plan.calls import Limits
from fusedrl.plan.planner import Plan
from fusedrl.plan.price import Pricer
from fusedrl.plan.search.find import Settings
from tests.fusedrl.bench.scenes import pricer

LIMITS, SETTINGS = Limits(), Settings(restarts=4)


@pytest.fixture(scope="module")
def found() -> list[Plan]:
    return chosen(pricer(), random=3, seed=0, limits=LIMITS, settings=SETTINGS)


def test_plans_fit_differ_and_are_in_stages(found: list[Plan]) -> None:
    names = [plan.name for plan in found]
    assert names[0] == "best"
    assert names[-1] == "slowest"
    assert {"random 1", "random 2", "random 3"} <= set(names)
    assert len(
        {(plan.fused, *sorted((call, str(way), way) for call, way in plan.ways.items())) for plan in found}
    ) == len(names)
    assert all(plan.outcome.fits and not plan.streamed for plan in found)


def test_none_is_faster_than_the_best_or_slower_than_the_slowest(found: list[Plan]) -> None:
    seconds = [plan.seconds for plan in found]
    assert min(seconds) == seconds[0]
    assert max(seconds) == seconds[-1]
    assert seconds[-1] > seconds[0]


def test_no_single_call_makes_the_slowest_slower(found: list[Plan]) -> None:
    every = dividing(pricer(), limits=LIMITS)
    last = found[-1]
    others = (
        Plan("other", last.pricer, {**last.ways, call: way}, fused=False)
        for call in ("ref", "actor_gen")
        for way in every[call]
    )
    assert all(plan.seconds <= last.seconds * (1 + 1e-9) for plan in others if plan.outcome.fits)
    assert slowest(pricer(), every, start=last).seconds == last.seconds


def test_draws_are_the_seed_s(found: list[Plan]) -> None:
    every = dividing(pricer(), limits=LIMITS)
    again = [list(draw(pricer(), every, count=4, seed=seed)) for seed in (1, 1, 2)]
    ways = [[(plan.fused, plan.ways) for plan in each] for each in again]
    assert ways[0] == ways[1] != ways[2]


def test_draws_that_do_not_fit_are_left_out() -> None:
    """With room for half of them."""
    every = dividing(pricer(), limits=LIMITS)
    drawn = list(draw(pricer(), every, count=12, seed=0))
    fullest = sorted(max(memory.total for memory in plan.memory().values()) for plan in drawn)
    small = with_room(fullest[5])
    fitting = list(draw(small, every, count=6, seed=0))
    assert [plan.ways for plan in fitting] == [
        plan.ways for plan in drawn if max(memory.total for memory in plan.memory().values()) <= fullest[5]
    ]


def with_room(nbytes: float) -> Pricer:
    found = pricer()
    cluster = found.costs.cluster
    device = replace(cluster.device, memory=nbytes, usable=1.0)
    return replace(found, costs=AnalyticCosts(replace(cluster, device=device), "float32"))


def test_too_few_that_fit_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_choice, "DRAWS", 2)
    with pytest.raises(ValueError, match=r"random=3: only \d of 2 plans drawn fit; ask for fewer"):
        chosen(pricer(), random=3, seed=0, limits=LIMITS, settings=SETTINGS)

"""Three plans on two ranks: all results come, and nothing begins before what it needs has ended. No test of times."""

from itertools import pairwise
from typing import Any

import pytest
import torch

from fusedrl.bench import plan_emulated
from fusedrl.bench.plan_passes import micro_batches, mini_batches
from fusedrl.bench.plan_post import Post
from fusedrl.bench.plan_scene import Scene
from fusedrl.plan.calls import CALLS
from tests.distributed.pool import RankPool
from tests.fusedrl.bench.scenes import scenes

Repeats = list[list[dict[str, Any]]]


@pytest.fixture(scope="module")
def acted(ranks: RankPool) -> list[tuple[Scene, Repeats]]:
    first, second = ranks.run("tests.fusedrl.bench.plan_jobs:three_plans", world=2, repeats=2)
    assert first == second  # every rank knows all
    return list(zip(scenes(), first, strict=True))


def test_every_rank_runs_its_units_and_all_their_work(acted: list[tuple[Scene, Repeats]]) -> None:
    for scene, repeats in acted:
        for found in repeats:
            for rank, each in enumerate(found):
                own = [unit for unit in range(len(scene.units)) if rank in scene.ranks(unit)]
                assert [unit for unit, what, _, _ in each["events"] if what == "work"] == own
                assert each["events"][-1][:2] == [-1, "step"]
                calls = {call for unit in own for call in scene.units[unit]}
                assert each["ran"] == {call: work_of(scene, call, rank) for call in calls}


def work_of(scene: Scene, call: str, rank: int) -> int:
    """Micro-batches of all passes, or samples of the rank's engine."""
    part = scene.part(call, rank)
    assert part is not None
    if CALLS[call].kind == "generate":
        return len(range(part.dp_i, scene.pricer.work.samples, scene.ways[call].dp))
    return sum(len(micro_batches(scene, call, samples)[part.dp_i]) for samples in mini_batches(scene, call))


def speakers(scene: Scene, unit: int) -> set[int]:
    return {rank for call in scene.units[unit] for rank in scene.speakers(call)}


def test_no_unit_works_before_those_that_it_needs_have_ended(acted: list[tuple[Scene, Repeats]]) -> None:
    held = 0
    for scene, repeats in acted:
        for found in repeats:
            work = [
                (unit, r, s, e) for r, rank in enumerate(found) for unit, what, s, e in rank["events"] if what == "work"
            ]
            for unit, needs in enumerate(scene.needs):
                before = [e for other, rank, _, e in work if other in needs and rank in speakers(scene, other)]
                if before:
                    held += 1
                    assert min(s for other, _, s, _ in work if other == unit) >= max(before)
    assert held >= 2 * 3 * 5


def test_tensor_parallel_ranks_begin_together(acted: list[tuple[Scene, Repeats]]) -> None:
    """The reference's two ranks, of which one reads for the actor first."""
    scene, repeats = acted[2]
    before, unit = scene.units.index(("actor_logp",)), scene.units.index(("ref",))
    assert before < unit
    for found in repeats:
        work = [(each, s, e) for rank in found for each, what, s, e in rank["events"] if what == "work"]
        assert min(s for each, s, _ in work if each == unit) >= max(e for each, _, e in work if each == before)


def test_a_rank_does_one_thing_at_a_time(acted: list[tuple[Scene, Repeats]]) -> None:
    for _, repeats in acted:
        for rank in (rank for found in repeats for rank in found):
            events = [event for event in rank["events"] if event[0] >= 0]
            assert all(a[3] <= b[2] for a, b in pairwise(events))
            step = rank["events"][-1]
            assert step[2] <= events[0][2]
            assert step[3] >= events[-1][3]


def test_samples_that_come_twice_or_never_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.get_rank", lambda: 0)
    step = object.__new__(plan_emulated.EmulatedStep)
    step.scene, step._post = scenes()[1], Post()
    mask = torch.ones(8)
    step._post.send(mask, 0, tag=plan_emulated.RESULT + 10 * 1)
    step._complete("actor_gen", 1)
    step._post.send(mask * torch.tensor([2.0] + 6 * [1.0] + [0.0]), 0, tag=plan_emulated.RESULT + 10 * 1)
    with pytest.raises(AssertionError, match="actor_gen: 2 of 8 samples came not once"):
        step._complete("actor_gen", 1)

"""A plan's units in order, and every rank's part."""

import pytest

from fusedrl.bench.plan_scene import Part, Scene
from fusedrl.plan.calls import Way
from fusedrl.plan.meshes import Mesh
from tests.fusedrl.bench.scenes import BOTH, ROWS, plan_of, scenes

FUSED, APART, REPLICAS = range(3)


def test_units_go_by_phase_and_read_all_of_the_phase_before() -> None:
    scene = scenes()[FUSED]
    assert scene.units[0] == ("actor_gen",)
    assert scene.units[-1] == ("actor_train", "critic_train")
    assert [scene.phase(unit) for unit in range(6)] == [0, 1, 1, 1, 1, 2]
    assert scene.needs == ((), (0,), (0,), (0,), (0,), (1, 2, 3, 4))
    assert len(scenes()[APART].units) == 7


@pytest.mark.parametrize("number", range(3))
def test_parts_and_ranks_are_each_other_s_inverse(number: int) -> None:
    scene = scenes()[number]
    for call, way in scene.ways.items():
        parts = {rank: scene.part(call, rank) for rank in range(2)}
        held = [part for part in parts.values() if part is not None]
        assert len(set(held)) == way.mesh.count
        assert all(scene.rank(call, part) == rank for rank, part in parts.items() if part is not None)
        assert [rank for rank, part in parts.items() if part is not None] == list(way.mesh.ranks)


def test_the_critic_s_first_stage_lies_on_the_last_rank() -> None:
    scene = scenes()[FUSED]
    assert scene.part("actor_train", 0) == Part(0, 0, 0)
    assert scene.part("critic_train", 0) == Part(0, 0, 1)
    assert scene.stage("critic_train", Part(0, 0, 1)).last
    assert scene.speakers("actor_train") == (1,)
    assert scene.speakers("critic_train") == (0,)


def test_each_replica_has_one_speaker_beside_whom_others_are_silent() -> None:
    scene = Scene.of(plan_of("wide", Way(BOTH, size=ROWS)))
    assert scene.speakers("ref") == (0, 1)
    assert scenes()[REPLICAS].speakers("actor_gen") == (0,)
    assert scenes()[APART].part("critic_train", 0) is None
    assert scenes()[APART].ranks(0) == tuple(Mesh(0, 1).ranks)

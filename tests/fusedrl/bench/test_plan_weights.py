"""Weights that move: none where they lie right, all bytes once where they do not."""

import pytest

from fusedrl.bench.plan_scene import Scene
from fusedrl.bench.plan_weights import Moved, moved, wait_seconds
from fusedrl.plan.calls import Way
from tests.fusedrl.bench.scenes import BOTH, LEFT, ROWS, plan_of, scenes

EACH = 4  # bytes of a float32


def scene_of(way: Way, **others: Way) -> Scene:
    return Scene.of(plan_of("moves", way, others))


def test_nothing_moves_where_each_rank_has_what_it_needs() -> None:
    scene = scene_of(Way(BOTH, pp=2, size=ROWS), ref=Way(LEFT, size=ROWS))
    assert all(not moved(scene, call).bytes_ST for call in scene.ways)
    assert wait_seconds(scene, moved(scene, "actor_gen"), 0) == 0
    split = Way(BOTH, size=ROWS, zero=True)
    assert not moved(scene_of(split), "actor_logp").bytes_ST  # gathered while it runs
    assert moved(scene_of(split), "actor_gen").bytes_ST


def test_a_copy_elsewhere_is_the_whole_model() -> None:
    scene = scenes()[1]
    (((source, target), nbytes),) = moved(scene, "critic_values").bytes_ST.items()
    assert (source, target) == (1, 0)
    assert nbytes == pytest.approx(EACH * scene.model("critic_values").parameters(), rel=1e-2)
    assert wait_seconds(scene, moved(scene, "critic_values"), 0) == scene.pricer.costs.reshard(
        nbytes, across_nodes=False
    )
    assert wait_seconds(scene, moved(scene, "critic_values"), 1) == 0  # who sends goes on


def test_other_halves_come_from_the_other_rank() -> None:
    """From two stages to two halves of every layer: each rank lacks half of the other's layers."""
    scene = scene_of(Way(BOTH, pp=2, size=ROWS), actor_gen=Way(BOTH, tp=2, size=4))
    found = moved(scene, "actor_gen").bytes_ST
    assert set(found) == {(0, 1), (1, 0)}
    assert sum(found.values()) == pytest.approx(EACH * scene.model("actor_gen").parameters() / 2, rel=2e-2)


def test_a_wait_is_for_the_busiest_sender() -> None:
    """Or for all that comes, where that is more."""
    found = Moved({(0, 1): 5, (0, 2): 7, (3, 1): 1})
    assert [found.most(1), found.most(2)] == [12, 12]
    assert Moved({(0, 1): 5, (3, 1): 4}).most(1) == 9
    assert (found.senders(1), found.targets(0)) == ([0, 3], [1, 2])

"""Fused training against the schedules package: no better than its bound, near what its greedy order reaches."""

import pytest

from fusedrl.plan.calls import Way
from fusedrl.plan.fused import SLACK, may_fuse, pass_seconds
from fusedrl.plan.meshes import Mesh
from schedules.bounds import lower_bound
from schedules.builders.greedy import greedy
from schedules.problem import Model, Problem
from schedules.replay import replay


def problem(stages: int, microbatches: int, actor: tuple[float, float], critic: tuple[float, float]) -> Problem:
    line = list(range(stages))
    models = [
        Model("actor", line, microbatches, forward=actor[0], backward=actor[1]),
        Model("critic", line[::-1], microbatches, forward=critic[0], backward=critic[1]),
    ]
    return Problem(stages, tuple(models))


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("critic", [(1.0, 2.0), (0.5, 1.0), (2.0, 5.0)])
def test_bound_equals_that_of_schedules_and_greedy_is_near(stages: int, critic: tuple[float, float]) -> None:
    actor, count = (1.0, 2.0), 2 * stages
    posed = problem(stages, count, actor, critic)
    took = pass_seconds([actor] * stages, [critic] * stages, counts=(count, count))
    assert took <= SLACK * lower_bound(posed) * (1 + 1e-12)
    assert took >= lower_bound(posed) * (1 - 1e-12)
    assert replay(posed, greedy(posed)).makespan <= 1.1 * took


def test_one_column_is_all_work_in_a_row() -> None:
    assert pass_seconds([(1.0, 2.0)], [(2.0, 3.0)], counts=(4, 2)) == 4 * 3 + 2 * 5


def test_only_layouts_that_one_order_serves_fuse() -> None:
    way = Way(Mesh(0, 8), tp=2, pp=2)
    assert may_fuse(way, Way(Mesh(0, 8), tp=1, pp=4))
    assert not may_fuse(way, Way(Mesh(0, 4), tp=2, pp=2))
    assert not may_fuse(Way(Mesh(0, 12), pp=2), Way(Mesh(0, 12), pp=3))
    assert not may_fuse(way, Way(Mesh(0, 8), zero=True))

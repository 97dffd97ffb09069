"""What configurations name is what plans know, and schedules made for each step; test_update.py runs the methods."""

from pathlib import Path
from typing import Any

import torch

from fusedrl.config.schema import CostConfig, ScheduleConfig
from fusedrl.config.schema.schedule import METHODS, SOLVERS
from fusedrl.pipeline import plan
from fusedrl.trainers.costs import planned_cost
from fusedrl.trainers.planning import SEARCHED, searches
from schedules.solve import STARTING
from tests.distributed.pool import RankPool
from tests.distributed.trainer_jobs import folder_of
from tests.fusedrl.models.test_architecture import BASE


def train(ranks: RankPool, tmp_path: Path, **options: Any) -> list[dict[str, Any]]:
    folder = folder_of(tmp_path / str(len(list(tmp_path.iterdir()))))
    options = {"micro": 1, "steps": 1, "uneven": False, **options}
    return ranks.run("tests.distributed.planning_jobs:train", world=options["pp"], folder=folder, **options)


def same_training(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    pairs = [
        (a, b)
        for mine, theirs in zip(one, other, strict=True)
        for a, b in zip(mine["state"], theirs["state"], strict=True)
    ]
    return one[0]["metrics"] == other[0]["metrics"] and all(torch.equal(a, b) for a, b in pairs)


def test_solved_orders_are_shorter_than_greedys_and_training_is_bit_equal(ranks: RankPool, tmp_path: Path) -> None:
    greedy = train(ranks, tmp_path, pp=4, uneven=True, solver="greedy")
    solved = train(ranks, tmp_path, pp=4, uneven=True, time_budget=0.5)
    assert same_training(greedy, solved)
    assert len({each["orders"][0] for each in solved}) == 1
    assert solved[0]["orders"][0] != greedy[0]["orders"][0]
    assert solved[0]["digests"] == greedy[0]["digests"]
    figures = solved[0]["figures"]
    assert figures[0]["schedule/planned_makespan"] < figures[0]["schedule/greedy_makespan"]
    assert figures[0]["schedule/planned_bubble"] < figures[0]["schedule/greedy_bubble"]
    assert figures[0]["schedule/greedy_makespan"] == greedy[0]["figures"][0]["schedule/planned_makespan"]
    assert figures[0]["schedule/solve_s"] > 0
    assert [each["schedule/cache_hits"] for each in figures] == [0, 1, 1, 1]  # the passes are of equal work
    assert [each["schedule/solve_s"] for each in figures[1:]] == [0, 0, 0]


def test_measured_durations_make_the_plan_on_every_rank_and_training_is_bit_equal(
    ranks: RankPool, tmp_path: Path
) -> None:
    counted = train(ranks, tmp_path, pp=2, steps=3, micro=2, method="serial", profile=False)
    measured = train(ranks, tmp_path, pp=2, steps=3, micro=2, method="fused_split")
    assert same_training(counted, measured)
    assert [each["schedule/profiled"] for each in measured[0]["figures"]] == [0] * 4 + [1] * 8
    assert measured[0]["digests"] == measured[1]["digests"]
    assert measured[0]["figures"] == measured[1]["figures"]
    assert not set(measured[0]["digests"][4:]) & set(counted[0]["digests"])
    assert all(each["schedule/planned_makespan"] > 1 for each in measured[0]["figures"][4:])  # ms, not GFLOP


def test_searches_are_for_fused_orders_with_time_to_search() -> None:
    assert searches(ScheduleConfig())
    assert not searches(ScheduleConfig(time_budget=0.0))
    assert not searches(ScheduleConfig(solver="greedy"))
    assert [method for method in METHODS if searches(ScheduleConfig(method=method))] == list(SEARCHED)
    assert set(SOLVERS) - {"greedy"} <= set(STARTING)


def test_methods_of_the_configuration_are_those_of_plans() -> None:
    assert tuple(plan.METHODS) == METHODS


def test_costs_count_the_layers_of_each_stage() -> None:
    two, six = (planned_cost(ScheduleConfig(), "critic", BASE, tp=1, stages=stages) for stages in (2, 6))
    size = {"rows": 2, "length": 8}
    assert two.weight(0, **size) == 3 * six.weight(0, **size) > 0


def test_constant_weight_part_is_the_configured_one_or_half() -> None:
    schedule = ScheduleConfig(costs="constant", actor=CostConfig(backward=3.0, backward_weight=1.0))
    costs = [planned_cost(schedule, role, BASE, tp=1, stages=1) for role in ("actor", "critic")]
    assert [cost.weight(0, rows=1, length=1) for cost in costs] == [1.0, 1.0]

"""The sweep: every point once, true to the replay, refused before the first one where it cannot be."""

import shlex
from dataclasses import replace

import pytest

from schedules.bounds import lower_bound
from schedules.cli import main
from schedules.problem import ProblemError
from schedules.replay import bubble_ratio
from schedules.search.limits import Limits
from schedules.solve import solve
from schedules.sweep import Grid, command_of, problem_of, sweep

GRID = Grid(depths=[2, 4], microbatches=[2, 4], methods=["serial", "greedy"], cap=1.0)


def test_every_point_once_and_as_solved_alone():
    points = list(sweep(replace(GRID, depths=[2, 4, 2], microbatches=[2, 4, 4]), limits=Limits()))
    assert [(p.depth, p.microbatches, p.method) for p in points] == [
        (d, m, method) for d in (2, 4) for m in (2, 4) for method in ("serial", "greedy")
    ]
    alone = solve(problem_of(GRID, depth=4, microbatches=4), method="serial")
    assert (points[-2].makespan, points[-2].lower_bound) == (alone.replay.makespan, alone.lower_bound)
    assert all(p.peak_memory == 1 for p in points if p.method == "serial")
    for serial, fused in zip(points[::2], points[1::2], strict=True):
        assert fused.peak_memory <= 1
        assert fused.bubble_ratio <= serial.bubble_ratio


def test_problem_is_actor_and_reversed_critic():
    problem = problem_of(GRID, depth=3, microbatches=2)
    assert problem.model("critic").placement == (2, 1, 0)
    assert [problem.model(n).duration("B", 0, 0) for n in ("actor", "critic")] == [10, 4]


def test_least_bubble_ratio_is_that_of_the_bound():
    problem = problem_of(GRID, depth=4, microbatches=4)
    for point in sweep(replace(GRID, depths=[4], microbatches=[4]), limits=Limits()):
        assert point.least_bubble_ratio == pytest.approx(bubble_ratio(problem, lower_bound(problem)), abs=1e-5)


def test_a_point_that_cannot_be_posed_is_named_before_any_is_solved():
    for change, message in (
        ({"cap": 0.1}, "2 ranks, 2 micro-batches, cap 0.1 x serial 1F1B's peak 2: memory_cap: 0.2 is below 1"),
        ({"comm": float("nan")}, "comm: expected a finite number"),
        ({"microbatches": [2, 4_000_000]}, "ops"),
    ):
        with pytest.raises(ProblemError, match=message):
            next(sweep(replace(GRID, **change), limits=Limits()))


@pytest.mark.parametrize("limits", [Limits(), Limits(1.5, 10, 2, 7)])
@pytest.mark.parametrize("cap", [None, 1.0, 4 / 3])
def test_command_makes_the_same_sweep(monkeypatch, tmp_path, limits, cap):
    seen = []
    monkeypatch.setattr("schedules.sweep_command.sweep", lambda grid, limits: seen.append((grid, limits)) or [])
    grid = Grid([2, 4], [2, 4], ["serial", "greedy"], 5.25, 1 / 3, 0.1, cap)
    words = shlex.split(command_of(grid, limits=limits))
    assert words[:4] == ["python", "-m", "schedules", "sweep"]
    assert main([*words[3:], "--out", str(tmp_path)]) == 0
    assert seen == [(grid, limits)]

"""The sweep: every point once, true to the replay, in files that stand alone."""

import csv

from schedules.cli import main
from schedules.search.limits import Limits
from schedules.solve import solve
from schedules.sweep import Grid, problem_of, sweep, write

GRID = Grid(depths=[2, 4], microbatches=[2, 4], methods=["serial", "greedy"], cap=1.0)


def test_every_point_once_and_as_solved_alone():
    points = list(sweep(GRID, limits=Limits()))
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


def test_page_holds_charts_and_numbers_and_needs_no_network(tmp_path):
    write(list(sweep(GRID, limits=Limits())), tmp_path, grid=GRID)
    page = (tmp_path / "index.html").read_text()
    assert page.count('src="data:image/png;base64,') == 2
    assert "http" not in page
    assert page.count("<tr>") == 1 + 8
    assert (tmp_path / "depth4.png").read_bytes().startswith(b"\x89PNG")


def test_command_writes_the_table(tmp_path, capsys):
    args = ["sweep", "--out", str(tmp_path), "--depths", "2", "--microbatches", "2", "3", "--methods", "greedy"]
    assert main(args) == 0
    with (tmp_path / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["depth"], r["microbatches"], r["method"]) for r in rows] == [("2", "2", "greedy"), ("2", "3", "greedy")]
    assert capsys.readouterr().out.count("\n") == 2

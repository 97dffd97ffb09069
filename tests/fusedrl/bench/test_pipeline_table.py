import json
from pathlib import Path
from typing import Any

import pytest

from fusedrl.bench import pipeline_table
from fusedrl.bench.pipeline_table import Options, done, markdown, run
from schedules.problem import Model, Problem
from schedules.problem_file import save_problem

FOUND = {
    "planned_makespan_ms": 100.0,
    "replayed_makespan_ms": 110.0,
    "measured_makespan_ms": 120.0,
    "measured_over_replayed": 1.09,
    "planned_bubble": 0.1,
    "measured_bubble": 0.2,
}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Jobs that would have run, by problem and ranks; the one called `broken` fails."""
    started: list[tuple[str, int]] = []

    def job(problem: Path, options: Options, *, ranks: int) -> dict[str, Any] | None:
        started.append((problem.stem, ranks))
        return None if problem.stem == "broken" else {"serial": FOUND}

    monkeypatch.setattr(pipeline_table, "run_job", job)
    return started


def problems(folder: Path, *names: str, ranks: int) -> tuple[Path, ...]:
    paths = tuple(folder / f"{name}.yaml" for name in names)
    for path in paths:
        save_problem(path, problem=Problem(ranks, (Model("actor", list(range(ranks)), 1, forward=1.0),)))
    return paths


def test_a_second_start_runs_only_what_is_missing(tmp_path: Path, jobs: list[tuple[str, int]]) -> None:
    paths = problems(tmp_path, "a", "broken", "b", ranks=4)
    options = Options(tmp_path / "out.jsonl", problems=paths, ranks=2)
    run(options)
    assert jobs == [("a", 2), ("broken", 2), ("b", 2)]
    assert [line["given_ranks"] for line in done(options.out)] == [4, 4]
    run(options)
    assert jobs[3:] == [("broken", 2)]
    run(Options(options.out, problems=paths[:1], ranks=4, unit_ms=5.0))
    assert jobs[4:] == [("a", 4)]


def test_a_line_that_was_cut_short_is_run_again(tmp_path: Path, jobs: list[tuple[str, int]]) -> None:
    options = Options(tmp_path / "out.jsonl", problems=problems(tmp_path, "a", "b", ranks=2))
    run(options)
    lines = options.out.read_text().splitlines()
    options.out.write_text(f"{lines[0]}\n{lines[1][:30]}\n")
    run(options)
    assert jobs[2:] == [("b", 2)]
    assert len(list(done(options.out))) == 2


def test_table_sets_methods_against_serial_and_tells_refusals() -> None:
    methods = {"serial": FOUND, "auto": FOUND | {"planned_makespan_ms": 50.0}, "exact": {"refused": "too large"}}
    head, rule, *rows = markdown(
        [{"problem": "x/exp9.yaml", "ranks": 8, "given_ranks": 16, "methods": methods}]
    ).splitlines()
    assert len({row.count("|") for row in (head, rule, *rows)}) == 1
    assert rows[1] == "| exp9 | 8 of 16 | auto | 50 | 110 | 120 | 1.090 | 0.100 | 0.200 | 2.000 | 1.000 |"
    assert "refused: too large" in rows[2]


def test_a_file_of_lines_holds_the_options_of_its_jobs(tmp_path: Path, jobs: list[tuple[str, int]]) -> None:
    options = Options(tmp_path / "out.jsonl", problems=problems(tmp_path, "a", ranks=2), seed=3)
    run(options)
    assert json.loads(options.out.read_text())["options"] == options.of_job()
    assert options.of_job()["seed"] == 3

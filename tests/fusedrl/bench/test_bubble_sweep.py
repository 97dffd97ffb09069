import csv
import os
from pathlib import Path
from typing import Any

import pytest

from fusedrl.bench import bubble_sweep
from fusedrl.bench.bubble_cell import Cell, file_of, read_cell
from fusedrl.bench.bubble_ranks import measure
from fusedrl.bench.bubble_sweep import grid, hydra_arguments, main, overrides_of, swept
from tests.distributed.pool import RankPool
from tests.fusedrl.bench.test_bubble_page import FIGURES
from tests.fusedrl.bench.test_bubble_ranks import start_server

TINY = ["depth=2", "microbatches=1,2", "mix=fixed", "method=serial,greedy", "unit_ms=0.1", "repeats=2"]


def test_an_interrupted_sweep_goes_on_with_what_it_has(
    ranks: RankPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start_server(ranks)
    made: list[str] = []

    def watched(cell: Cell) -> dict[str, Any]:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(cell.name)
        return measure(cell)

    monkeypatch.setattr(bubble_sweep, "measure", watched)
    words = ["--folder", str(tmp_path / "it's = here"), *TINY]
    assert main(words) == 130
    said = capsys.readouterr()
    assert "interrupted: 2 cells are missing; the same command goes on" in said.err
    folder = tmp_path / "it's = here"
    assert (folder / "index.html").read_text().count("not run yet") == 2
    first = [file_of(cell, folder=folder) for cell in grid(overrides_of(TINY)[0])]
    first[1].write_text(first[1].read_text()[:-20])  # as if a kill had cut it
    kept = os.stat(first[0]).st_mtime_ns

    made.clear()
    monkeypatch.setattr(bubble_sweep, "measure", lambda cell: made.append(cell.name) or measure(cell))
    assert main(words) == 0
    assert made == [path.stem for path in first[1:]]
    assert os.stat(first[0]).st_mtime_ns == kept
    assert "4 cells, 1 of them kept from before" in capsys.readouterr().out
    rows = list(csv.DictReader((folder / "sweep.csv").read_text().splitlines()))
    assert [(row["microbatches"], row["method"]) for row in rows] == [
        (m, method) for m in ("1", "2") for method in ("serial", "greedy")
    ]
    assert all(float(row["measured_makespan_ms"]) >= float(row["planned_makespan_ms"]) for row in rows)


def faked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    def fake(cell: Cell) -> dict[str, Any]:
        made.append(cell.name)
        if cell.method == "greedy":
            raise RuntimeError("rank 1 fell")
        return FIGURES

    monkeypatch.setattr(bubble_sweep, "measure", fake)
    return made


def test_a_changed_setting_is_noticed_and_a_failed_cell_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = faked(monkeypatch)
    words = ["--folder", str(tmp_path), "depth=2", "microbatches=2", "mix=fixed", "method=serial,greedy"]
    assert main(words) == 1
    assert "greedy: RuntimeError: rank 1 fell" in (tmp_path / "index.html").read_text()
    made.clear()
    assert main(words) == 1
    assert made == [Cell(depth=2, microbatches=2, method="greedy").name]
    made.clear()
    capsys.readouterr()
    assert main([*words, "unit_ms=3"]) == 1
    assert len(made) == 2
    assert "1 cells were made with other settings (unit_ms): they are made again" in capsys.readouterr().out
    assert read_cell(Cell(depth=2, microbatches=2, method="serial", unit_ms=3.0), folder=tmp_path) is not None


def test_nothing_runs_where_all_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = faked(monkeypatch)
    words = ["--folder", str(tmp_path), "depth=2", "microbatches=2", "mix=fixed", "method=serial"]
    assert (main(words), main(words), len(made)) == (0, 0, 1)


def test_each_bad_key_is_one_line_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "none"
    words = [
        "depht=3",
        "method=sreial,auto",
        "unit_ms=0",
        "mix=fixed,fixd",
        "depth=a",
        "+x=1",
        "seed",
        "steps=1",
        "steps=2",
    ]
    assert main(["--folder", str(folder), *words]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in said] == [
        "depht",
        "method",
        "unit_ms",
        "mix",
        "depth",
        "+x",
        "seed",
        "steps",
    ]
    assert said[0] == "sweep_bubble: depht: no such key; did you mean depth?"
    assert not folder.exists()


def test_the_grid_is_the_config_file_s_but_for_what_is_named() -> None:
    assert set(swept()) == {"depth", "microbatches", "mix", "method"}
    overrides, problems = overrides_of(["depth=range(2,4)", "method=serial", "seed=1,2", "mix=fixed"])
    assert not problems
    cells = grid(overrides)
    assert {cell.depth for cell in cells} == {2, 3}
    assert len(cells) == 2 * len(swept()["microbatches"]) * 2
    assert len(grid(overrides_of(["depth=2,2"])[0])) == len(grid(overrides_of(["depth=2"])[0]))


def test_slurm_s_keys_are_hydra_s_and_the_user_s_come_last() -> None:
    found = hydra_arguments({"depth": ["2", "3"]}, ["hydra.launcher.partition=x"], folder=Path("/f"), slurm=True)
    assert found.index("hydra/launcher=submitit_slurm") < found.index("hydra.launcher.partition=x")
    assert found[-1] == "depth=2,3"
    assert not any("launcher" in word for word in hydra_arguments({}, [], folder=Path("/f"), slurm=False))

import base64
import csv
import re
from dataclasses import replace
from pathlib import Path

from fusedrl.bench.bubble_cell import AXES, Cell, failure_of, write_cell
from fusedrl.bench.bubble_page import COLUMNS, write_sweep
from tests.fusedrl.report.folders import Seen

FIGURES = {
    **{key: 0.5 for key, _ in COLUMNS},
    "planned_bubble": 0.12345,
    "measured_bubble": 0.2345,
    "planned_makespan_ms": 77.0,
}


def cells() -> list[Cell]:
    return [Cell(depth=2, microbatches=m, method=method) for m in (4, 8) for method in ("serial", "greedy")]


def write_all(folder: Path) -> None:
    for k, cell in enumerate(cells()):
        write_cell(cell, FIGURES | {"measured_bubble": round(0.2 + k / 100, 2)}, folder=folder)


def test_the_table_and_the_marks_tell_the_cells_numbers(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert write_sweep(cells(), folder=tmp_path, command="bash <here> && there") == []
    text = (tmp_path / "sweep.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [float(row["measured_bubble"]) for row in rows] == [0.2, 0.21, 0.22, 0.23]
    assert [tuple(row[key] for key in AXES) for row in rows][1] == ("2", "4", "fixed", "greedy")
    page = (tmp_path / "index.html").read_text()
    seen = Seen(page)
    marks = seen.marks["2 ranks, fixed"]
    assert marks[:2] == ["micro-batches 4: serial, planned 0.12345", "micro-batches 8: serial, planned 0.12345"]
    assert "micro-batches 8: greedy, emulated 0.23" in marks
    assert len(marks) == 8
    assert "bash <here> && there" in seen.text
    (link,) = [value for name, value in seen.attributes if name == "href"]
    assert link is not None
    assert base64.b64decode(link.split(",")[1]).decode() == text


def test_a_page_loads_nothing(tmp_path: Path) -> None:
    write_all(tmp_path)
    write_sweep(cells(), folder=tmp_path, command="x")
    page = (tmp_path / "index.html").read_text()
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=.?(http|//)|<script|@import|url\(", page)


def test_emulated_is_dashed_in_its_method_s_hue(tmp_path: Path) -> None:
    write_all(tmp_path)
    write_sweep(cells(), folder=tmp_path, command="x")
    lines = re.findall(
        r'<polyline class="(s\d)" points="[^"]*"( stroke-dasharray)?', (tmp_path / "index.html").read_text()
    )
    assert lines == [("s0", ""), ("s0", " stroke-dasharray"), ("s1", ""), ("s1", " stroke-dasharray")]


def test_what_is_missing_or_refused_is_told_with_its_reason(tmp_path: Path) -> None:
    refused, failed, waiting = (Cell(method=method) for method in ("interleaved", "serial", "greedy"))
    write_cell(refused, {"refused": "multiples of <p>"}, folder=tmp_path)
    failure_of(failed, folder=tmp_path).write_text("RuntimeError: rank 1 fell\n")
    assert write_sweep([refused, failed, waiting], folder=tmp_path, command="x") == [failed, waiting]
    seen = Seen((tmp_path / "index.html").read_text())
    assert "multiples of <p>" in seen.text
    assert "fixed, serial: RuntimeError: rank 1 fell" in seen.text
    assert "fixed, greedy: not run yet" in seen.text
    (row,) = csv.DictReader((tmp_path / "sweep.csv").read_text().splitlines())
    assert row["refused"] == "multiples of <p>"
    assert row["planned_bubble"] == ""


def test_nothing_done_yet_is_a_page_too(tmp_path: Path) -> None:
    assert len(write_sweep([replace(Cell(), depth=9)], folder=tmp_path, command="x")) == 1
    assert "9 ranks" in (tmp_path / "index.html").read_text()

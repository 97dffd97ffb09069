"""The command line of the tables: each runs at tiny limits and is reported; errors are one line."""

import json
import subprocess
import sys

import pytest

from schedules.bench.__main__ import main
from schedules.bench.tables import TABLES

TINY = {
    "published": ["exp5"],
    "front": ["exp5"],
    "split": ["exp5"],
    "baselines": ["p4m4 fused*", "p4m4 zb-h1"],
    "speed": ["exp0 neighbours", "exp2"],
}
ROWS = {"published": 1, "front": 3, "split": 1, "baselines": 4, "speed": 2}


def run(table, out, *more):
    only = ["--only", *TINY[table]]
    return main([table, "--out", str(out), "--method", "anneal", "--steps", "300", "--time-limit", "20", *only, *more])


@pytest.mark.parametrize("table", TABLES)
def test_table_runs_once_and_is_reported(table, tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    assert run(table, out) == 0
    assert capsys.readouterr().out.count("\n") == ROWS[table]
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    assert {(line["table"], line["settings"]["steps"]) for line in lines} == {(table, 300)}
    assert run(table, out) == 0
    assert capsys.readouterr().out == ""
    assert main(["report", str(out)]) == 0
    report = capsys.readouterr().out
    assert report.startswith(f"## {table}\n\n| problem |")
    assert "Run with method anneal, time_limit 20, steps 300, workers 2, seed 0, python 3" in report
    numbers = {line["facts"].get("makespan") for line in lines} - {None}
    assert all(f"{number:.6g}" in report for number in numbers)


def test_report_takes_tables_of_several_files_and_the_last_run_of_a_row(tmp_path, capsys):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    run("published", first)
    run("split", second)
    run("published", second, "--seed", "1")
    capsys.readouterr()
    assert main(["report", str(first), str(second)]) == 0
    report = capsys.readouterr().out
    assert [line for line in report.splitlines() if line.startswith("#")] == ["## published", "## split"]
    assert report.count("| exp5 |") == 2
    assert report.count("seed 1") == 1


def test_jobs_share_the_cores(tmp_path, capsys):
    run("published", tmp_path / "a.jsonl", "--jobs", "2")
    assert json.loads((tmp_path / "a.jsonl").read_text())["settings"]["workers"] == 1


def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "broken.jsonl").write_text("x\n")
    (tmp_path / "empty.jsonl").touch()
    for args, message in (
        (["split", "--out", str(tmp_path / "a.jsonl"), "--only", "exp77"], "--only exp77: no such row"),
        (["report", str(tmp_path / "broken.jsonl")], "broken.jsonl: line 1: not a row of a table"),
        (["report", str(tmp_path / "none.jsonl")], "none.jsonl: No such file or directory"),
        (["report", str(tmp_path / "empty.jsonl")], "empty.jsonl: no row of any table (published, front, "),
    ):
        assert main(args) == 2
        err = capsys.readouterr().err
        assert message in err
        assert (err[:7], err.count("\n")) == ("error: ", 1)
    for args in (["magic"], [], ["split"], ["split", "--out", "a", "--jobs", "0"], ["split", "--out", "no/a"]):
        with pytest.raises(SystemExit) as caught:
            main(args)
        assert (caught.value.code, capsys.readouterr().err.count("\n")) == (2, 1)


def test_row_that_breaks_its_cap_ends_with_1_and_the_rows_before_it_stay(tmp_path, capsys):
    out = tmp_path / "a.jsonl"
    rows = ["exp2 cap 1.25", "exp5 cap 1.00"]  # overlay's peaks are 1.14 and 1.06 times serial 1F1B's
    assert main(["front", "--out", str(out), "--method", "overlay", "--only", *rows]) == 1
    assert "is above memory_cap 15.6" in capsys.readouterr().err
    assert [json.loads(line)["row"] for line in out.read_text().splitlines()] == rows[:1]


def test_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "schedules.bench", "--help"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, "published" in done.stdout) == (0, True)

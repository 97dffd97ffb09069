"""The command `sweep`: where its results go, and what it refuses before it solves anything."""

import csv
import re

import pytest

from schedules import sweep_command
from schedules.cli import main

SMALL = ["sweep", "--depths", "2", "--microbatches", "2", "3", "--methods", "greedy"]


def test_writes_the_folder_and_tells_each_point(tmp_path, capsys):
    assert main([*SMALL, "--out", str(tmp_path / "new" / "folder")]) == 0
    with (tmp_path / "new" / "folder" / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["depth"], r["microbatches"], r["method"]) for r in rows] == [("2", "2", "greedy"), ("2", "3", "greedy")]
    first, last = capsys.readouterr().out.splitlines()
    assert re.match(r"1/2 \d+m\d\ds left  +2 ranks +2 micro-batches greedy +bubble ratio ", first)
    assert last.startswith("2/2 0m00s left ")


def test_writes_the_page_alone(tmp_path):
    assert main([*SMALL, "--html", str(tmp_path / "page.html"), "--out", str(tmp_path / "all")]) == 0
    assert main([*SMALL, "--html", str(tmp_path / "alone.html")]) == 0
    sizes = {path.name: path.read_text().count("<tr") for path in tmp_path.glob("*.html")}
    assert sizes == {"page.html": 3, "alone.html": 3}
    assert (tmp_path / "all" / "index.html").read_text().count("<tr") == 3


def test_without_a_place_for_the_result_nothing_is_solved(capsys):
    assert main(SMALL) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), "--out FOLDER" in err) == ("", 1, True)


@pytest.mark.parametrize("place", ["--out", "--html"])
def test_what_was_solved_before_a_stop_is_kept(tmp_path, monkeypatch, capsys, place):
    whole = sweep_command.sweep

    def stopped(grid, *, limits):
        yield next(whole(grid, limits=limits))
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_command, "sweep", stopped)
    assert main([*SMALL, place, str(tmp_path / "kept")]) == 130
    assert capsys.readouterr().err == "error: stopped\n"
    page = tmp_path / "kept" if place == "--html" else tmp_path / "kept" / "index.html"
    assert page.read_text().count("<tr") == 2


@pytest.mark.parametrize(
    "args", ["--comm -1", "--comm nan", "--cap 0.2", "--actor 1e-100 --critic 1e100", "--microbatches 4000000"]
)
def test_grids_that_cannot_be_posed_are_one_line(tmp_path, capsys, args):
    assert main(["sweep", "--depths", "2", "--out", str(tmp_path / "o"), *args.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), err[:7]) == ("", 1, "error: ")
    assert not list((tmp_path / "o").glob("*"))


def test_a_file_in_the_folders_place_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as caught:
        main([*SMALL, "--out", str(tmp_path / "file")])
    assert (caught.value.code, capsys.readouterr().err.count("is not a folder")) == (2, 1)
    assert main([*SMALL, "--out", str(tmp_path / "file" / "below")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'file' / 'below'}: Not a directory\n"

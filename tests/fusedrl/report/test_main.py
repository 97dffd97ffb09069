"""The command: a page, its problems as lines, and code 2 where there is none."""

from pathlib import Path

import pytest

from fusedrl.report.__main__ import main
from tests.fusedrl.report.folders import make, step


def test_it_writes_where_it_is_told_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path / "run", step(1))
    assert main([str(folder)]) == 0
    assert main([str(folder), f"out={tmp_path / 'other.html'}"]) == 0
    (folder / "config.yaml").unlink()
    assert main([str(folder)]) == 0
    told = capsys.readouterr()
    assert told.out.split() == [str(folder / "report.html"), str(tmp_path / "other.html"), str(folder / "report.html")]
    assert told.err == "fusedrl.report: config.yaml is missing: no configuration\n"
    assert (tmp_path / "other.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["a", "out="], ["--what"], ["/nowhere/at/all"]])
def test_what_cannot_be_done_is_one_line_and_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1

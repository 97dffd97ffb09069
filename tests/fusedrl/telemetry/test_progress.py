import io

import pytest
from rich.console import Console

from fusedrl.telemetry.progress import Progress


def test_a_line_tells_the_count_the_rate_and_the_time_left() -> None:
    out = io.StringIO()
    progress = Progress("cell", total=12, first=9, console=Console(file=out, width=200))
    progress.done("four ranks [b]")
    progress.say("between")
    progress.done()
    progress.close()
    first, between, second = out.getvalue().splitlines()
    assert first.startswith("cell 10/12  four ranks [b]  ")
    assert first.endswith(" cells/s  0s left")
    assert between == "between"
    assert second.startswith("cell 11/12  ")


def test_a_terminal_gets_a_bar_beside_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    progress = Progress("cell", total=2, console=terminal)
    progress.done("one")
    progress.close()
    assert "━" in out.getvalue()
    assert "1/2" in out.getvalue()
    assert "one" in out.getvalue()


def test_many_things_are_told_in_few_lines_and_by_their_number_a_second() -> None:
    out = io.StringIO()
    progress = Progress("row", total=110, first=10, lines=4, console=Console(file=out, width=200))
    for _ in range(10):
        progress.done(count=10)
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["40/110", "60/110", "90/110", "110/110"]
    assert all("rows/s" in line for line in lines)
    assert lines[-1].endswith("0s left")

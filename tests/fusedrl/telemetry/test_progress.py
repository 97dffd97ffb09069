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
    assert first.startswith("cell 10/12  four ranks [b]  0.0")
    assert first.endswith(" s/cell  0s left")
    assert between == "between"
    assert second.startswith("cell 11/12  0.0")


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

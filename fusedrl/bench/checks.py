"""A list of checks run in turn: each passes, fails or is skipped with a reason; the report is written after each.

    board = Board(out, heading={...})
    board.run("bf16_step", check)          # check() -> Figures, or raises Failed / Skipped, or any other error: FAIL
    sys.exit(board.exit_code)

A check that overruns the whole limit is ended by the process's end: a stuck kernel cannot be interrupted.
"""

import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.atomic import write_file

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
FAILED = 1  # exit code
Figures = dict[str, Any]


class Failed(Exception):
    """What a check looked for is not so; the message says what was found."""


class Skipped(Exception):
    """A check that cannot run here; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """One check's end."""

    name: str
    status: str
    seconds: float
    reason: str = ""
    figures: Figures = field(default_factory=dict)

    def line(self) -> str:
        told = self.reason or ", ".join(f"{key} {_short(value)}" for key, value in self.figures.items())
        return f"{self.status}  {self.name} ({self.seconds:.1f} s)  {told}"


class Board(AbstractContextManager["Board"]):
    """Runs checks, prints a line for each and keeps report.json in `folder` current. limit: seconds for all of them."""

    def __init__(
        self,
        folder: Path,
        *,
        heading: Mapping[str, Any],
        limit: float,
        say: Callable[[str], None] = print,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        self._folder, self._heading, self._say, self._end = folder, dict(heading), say, end
        self._limit, self._began, self._running = limit, time.monotonic(), ""
        self.outcomes: list[Outcome] = []
        self._timer = threading.Timer(limit, self._overrun)
        self._timer.daemon = True

    def __enter__(self) -> "Board":
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    @property
    def exit_code(self) -> int:
        return FAILED if any(each.status == FAIL for each in self.outcomes) else 0

    def run(self, name: str, check: Callable[[], Figures]) -> Outcome:
        """Run one check. An error that is no Skipped fails it; its traceback goes to the report."""
        began, self._running = time.monotonic(), name
        figures: Figures = {}
        try:
            figures, status, reason = check(), PASS, ""
        except Skipped as skipped:
            status, reason = SKIP, str(skipped)
        except Failed as failed:
            status, reason = FAIL, str(failed)
        except Exception as error:
            status, reason = FAIL, f"{type(error).__name__}: {error}".splitlines()[0]
            figures = {"traceback": traceback.format_exc()}
        return self._note(Outcome(name, status, time.monotonic() - began, reason, figures))

    def _note(self, outcome: Outcome) -> Outcome:
        self.outcomes.append(outcome)
        self._say(outcome.line())
        counts = {status: sum(each.status == status for each in self.outcomes) for status in (PASS, FAIL, SKIP)}
        report = {**self._heading, "counts": counts, "checks": [asdict(each) for each in self.outcomes]}
        write_file(self._folder / "report.json", json.dumps(report, indent=2) + "\n")
        return outcome

    def _overrun(self) -> None:
        seconds = time.monotonic() - self._began
        self._note(Outcome(self._running, FAIL, seconds, f"not done when the limit of {self._limit:g} s was over"))
        self._end(FAILED)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

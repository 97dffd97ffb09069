"""Progress of things that are no training steps: a line each, with rate and time left, and on a terminal a bar.

cell  12/32  4 ranks, 8 micro-batches, fixed, auto: bubble 0.11 planned, 0.14 emulated  6.1 s/cell  2m02s left
"""

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from fusedrl.telemetry.console import is_live
from fusedrl.telemetry.pace import Pace, duration


class Progress:
    """noun: what is counted. Those before `first` were there at the start and count for no rate. lines: how many there
    are at the most, spread over the total; None: one each."""

    def __init__(
        self, noun: str, *, total: int, first: int = 0, lines: int | None = None, console: Console | None = None
    ) -> None:
        self._noun, self._total, self._count = noun, total, first
        self._lines, self._left = lines or total, max(1, total - first)
        self._first = first
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._pace = Pace(total_steps=total, first_step=first)
        self._bar = self._drawn(first) if is_live(self._console) else None

    def done(self, text: str = "", *, count: int = 1) -> None:
        """So many more."""
        before, self._count = self._line_of(self._count), self._count + count
        self._pace.step_done(self._count)
        left = f"{duration(self._pace.seconds_left)} left"
        if self._line_of(self._count) > before:
            width = len(str(self._total))
            words = [f"{self._noun} {self._count:{width}d}/{self._total}", text, self._rate(), left]
            self.say("  ".join(filter(None, words)))
        if self._bar is not None:
            self._bar.update(self._task, completed=self._count, left=left)

    def _line_of(self, count: int) -> int:
        """How many lines are due by then."""
        return (count - self._first) * min(self._lines, self._left) // self._left

    def _rate(self) -> str:
        pace = self._pace.seconds_per_step
        if not pace:
            return ""
        return f"{pace:.2f} s/{self._noun}" if pace >= 1 else f"{1 / pace:.1f} {self._noun}s/s"

    def say(self, text: str) -> None:
        """A line beside the bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _drawn(self, first: int) -> Bar:
        columns = (BarColumn(bar_width=None), TextColumn("{task.completed:.0f}/{task.total:.0f}"))
        bar = Bar(*columns, TextColumn("{task.fields[left]}"), console=self._console, transient=True)
        self._task = bar.add_task(self._noun, total=self._total, completed=first, left="? left")
        bar.start()
        return bar

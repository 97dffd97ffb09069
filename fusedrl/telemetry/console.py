"""Progress for a person: one line a step, and on a terminal a live bar below them.

    step  12/60  reward 0.531  accuracy 0.640  bubble 0.21 (planned 0.18)  1850 tokens/s  3.1 s/step  2m29s left

Not on a terminal, and in CI, the lines alone.
"""

import os
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from fusedrl.telemetry.pace import Pace, duration

# metric -> (label, format)
COLUMNS: dict[str, tuple[str, str]] = {
    "train/loss": ("loss", ".4f"),
    "rm/loss": ("loss", ".4f"),
    "rm/accuracy": ("train accuracy", ".3f"),
    "val/loss": ("validation loss", ".4f"),
    "critic/score/mean": ("reward", ".3f"),
    "perf/bubble_ratio/measured": ("bubble", ".2f"),
    "perf/bubble_ratio/planned": ("planned", ".2f"),
}
VALIDATION = "val-core/"


def step_line(step: int, metrics: Mapping[str, Any], *, total_steps: int, pace: Pace) -> str:
    """The line of a step; a metric that is absent is left out."""
    found = {label: _text(metrics[name], spec) for name, (label, spec) in COLUMNS.items() if name in metrics}
    planned = found.pop("planned", None)
    if planned is not None and "bubble" in found:
        found["bubble"] += f" (planned {planned})"
    words = [f"{label} {text}" for label, text in found.items()]
    words[1:1] = _validation(metrics)
    if "perf/total_num_tokens" in metrics and pace.seconds_per_step:
        words.append(f"{float(metrics['perf/total_num_tokens']) / pace.seconds_per_step:.0f} tokens/s")
    if pace.seconds_per_step is not None:
        words.append(f"{pace.seconds_per_step:.2f} s/step")
    width = len(str(total_steps))
    return "  ".join([f"step {step:{width}d}/{total_steps}", *words, f"{duration(pace.seconds_left)} left"])


def _text(value: Any, spec: str) -> str:
    """Formatted; a rounding error below zero is shown as 0, not -0."""
    return format(round(float(value), 9) + 0.0, spec)


def _validation(metrics: Mapping[str, Any]) -> list[str]:
    """The mean over data sources of the validation's mean: of accuracy, or of the reward where that alone is told."""
    found: dict[str, list[float]] = {}
    for name, value in metrics.items():
        if name.startswith(VALIDATION) and _is_mean(name):
            found.setdefault("validation reward" if "/reward/" in name else "accuracy", []).append(float(value))
    return [f"{label} {sum(values) / len(values):.3f}" for label, values in found.items()]


def _is_mean(name: str) -> bool:
    """Not the best, the majority or pass@k of several responses."""
    return "/mean@" in name or "@" not in name


def is_live(console: Console) -> bool:
    """Whether to draw a bar: on a terminal that a person looks at."""
    return console.is_terminal and not console.is_dumb_terminal and not os.environ.get("CI")


class ConsoleWriter:
    """A sink that prints. `console`: where to; default standard output."""

    name = "console"

    def __init__(self, *, total_steps: int, first_step: int = 0, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._total = total_steps
        self._pace = Pace(total_steps=total_steps, first_step=first_step)
        self._progress = self._bar(first_step) if is_live(self._console) else None

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        self._pace.step_done(step)
        self.say(step_line(step, metrics, total_steps=self._total, pace=self._pace))
        if self._progress is not None:
            self._progress.update(self._task, completed=step, left=duration(self._pace.seconds_left))

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _bar(self, first_step: int) -> Progress:
        columns = (BarColumn(bar_width=None), TextColumn("{task.completed:.0f}/{task.total:.0f}"))
        left = TextColumn("{task.fields[left]} left")
        progress = Progress(*columns, left, console=self._console, transient=True)
        self._task = progress.add_task("steps", total=self._total, completed=first_step, left="?")
        progress.start()
        return progress

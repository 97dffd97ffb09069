"""Where a step's metrics go. A sink that fails is told once, and never ends or slows the training.

with open_logger(trainer, folder, total_steps=60) as logger:
    logger.log({"critic/score/mean": 0.5}, step=1)
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

import yaml

from fusedrl.config.schema import BaseTrainerConfig
from fusedrl.telemetry.console import ConsoleWriter
from fusedrl.telemetry.jsonl import JsonlWriter
from fusedrl.telemetry.mlflow_writer import MlflowWriter
from fusedrl.telemetry.report import ReportWriter
from fusedrl.telemetry.run_folder import RunFolder
from fusedrl.telemetry.tensorboard import TensorBoardWriter
from fusedrl.telemetry.tracker import Tracker
from fusedrl.telemetry.wandb_writer import WandbWriter


class Sink(Protocol):
    """A place for metrics; any method may raise."""

    name: str

    def log(self, step: int, metrics: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)


class MetricsLogger:
    """Hands each step to all sinks; a context manager. Without sinks (ranks other than 0) it does nothing."""

    def __init__(self, sinks: Sequence[Sink] = (), *, warn: Callable[[str], None] = _warn) -> None:
        self._sinks = tuple(sinks)
        self._warn = warn
        self._failures = {sink.name: 0 for sink in sinks}

    def log(self, metrics: Mapping[str, Any], *, step: int) -> None:
        for sink in self._sinks:
            try:
                sink.log(step, metrics)
            except Exception as error:
                self._failed(sink, error, step=step)

    def say(self, text: str) -> None:
        """A line for the user, beside the progress; nothing without a console."""
        for sink in self._sinks:
            if isinstance(sink, ConsoleWriter):
                sink.say(text)

    def close(self) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:
                self._warn(f"logger {sink.name} could not be closed: {type(error).__name__}: {error}")
        for name, count in self._failures.items():
            if count:
                self._warn(f"logger {name}: {count} steps are missing there")

    def __enter__(self) -> "MetricsLogger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sink in self._sinks:
            if isinstance(sink, Tracker):
                sink.failed = error is not None
        self.close()

    def _failed(self, sink: Sink, error: Exception, *, step: int) -> None:
        self._failures[sink.name] += 1
        if self._failures[sink.name] == 1:
            self._warn(
                f"logger {sink.name} failed at step {step} ({type(error).__name__}: {error}); training goes on, "
                "further failures of it are counted and told at the end"
            )


def open_logger(
    trainer: BaseTrainerConfig,
    folder: RunFolder,
    *,
    total_steps: int,
    resumed_from: int | None = None,
    warn: Callable[[str], None] = _warn,
) -> MetricsLogger:
    """The sinks that trainer.logger names, metrics.jsonl and report.html always; on rank 0 only.

    `resumed_from`: the step of the checkpoint a run goes on from; later lines of metrics.jsonl are dropped,
    and TensorBoard hides its later points. W&B and MLflow go on with the run whose id lies in the folder.
    """
    of_run: Any = {"project": trainer.project_name, "experiment": trainer.experiment_name}
    makers: dict[str, Callable[[], Sink]] = {
        "metrics.jsonl": lambda: JsonlWriter(folder.metrics, keep_through=resumed_from),
        "tensorboard": lambda: TensorBoardWriter(folder.tensorboard, keep_through=resumed_from),
        "console": lambda: ConsoleWriter(total_steps=total_steps, first_step=resumed_from or 0),
        "wandb": lambda: WandbWriter(folder.tracking, config=_saved_config(folder), **of_run),
        "mlflow": lambda: MlflowWriter(folder.tracking, config=_saved_config(folder), **of_run),
        "report.html": lambda: ReportWriter(folder.path),
    }
    sinks: list[Sink] = []
    asked = [name for name in dict.fromkeys(trainer.logger) if name != "jsonl"]  # which is always there
    for name in ("metrics.jsonl", *asked, "report.html"):
        try:
            sinks.append(makers[name]())
        except Exception as error:
            warn(f"logger {name} could not be opened ({type(error).__name__}: {error}); training goes on without it")
    return MetricsLogger(sinks, warn=warn)


def _saved_config(folder: RunFolder) -> dict[str, Any]:
    """What the run runs with, as it was saved."""
    return dict(yaml.safe_load(folder.config.read_text())) if folder.config.exists() else {}

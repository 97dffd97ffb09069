"""The folder of a run, runs/NAME: what it ran with, and what came out.

config.yaml      the whole configuration, resolved          metrics.jsonl   one JSON object a step
sizes.json       sizes derived from it                      tensorboard/    the same as curves
command.txt      the command line                           order.txt/.svg  the order of a step and its drawing
validation/      samples of the last validations            report.html     all of it on a page (fusedrl.report)
trace_stepN.json when each op of a step ran, for Perfetto
tracking/        runs of W&B and MLflow, and their ids
previous/N/      the same of earlier runs of this name      huggingface/    the trained model
checkpoints/     states to go on from (fusedrl.checkpoint.folder) and exported models
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusedrl.checkpoint.atomic import write_file
from fusedrl.checkpoint.folder import set_aside


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def sizes(self) -> Path:
        return self.path / "sizes.json"

    @property
    def command(self) -> Path:
        return self.path / "command.txt"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def tracking(self) -> Path:
        return self.path / "tracking"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def order(self) -> Path:
        return self.path / "order.txt"

    @property
    def drawing(self) -> Path:
        return self.path / "order.svg"

    @property
    def huggingface(self) -> Path:
        return self.path / "huggingface"

    @property
    def validation(self) -> Path:
        return self.path / "validation"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def records(self) -> tuple[Path, ...]:
        """What belongs to one run only. Orders and models stay in place: the new run may read them before it writes."""
        files = (self.config, self.sizes, self.command, self.metrics, self.validation, self.report)
        return (*files, self.tensorboard, self.tracking, *sorted(self.path.glob("trace_step*.json")))


def open_run_folder(
    path: Path,
    *,
    config_yaml: str,
    sizes: Mapping[str, object],
    command: Sequence[str],
    resumed_from: int | None = None,
) -> RunFolder:
    """Make the folder and save what the run runs with; on rank 0 only.

    Records and saved states of an earlier run of the same name move to previous/N. A run that goes on after step
    `resumed_from` of its own goes on with its records; states of later steps, of a course that is left, move.
    """
    folder = RunFolder(path)
    path.mkdir(parents=True, exist_ok=True)
    target = _next_previous(folder)
    set_aside(folder.checkpoints, after=resumed_from or 0, target=target)
    if resumed_from is None:
        _set_aside(folder, target)
    write_file(folder.config, config_yaml)
    write_file(folder.sizes, json.dumps(sizes, indent=2) + "\n")
    write_file(folder.command, shlex.join(command) + "\n")
    return folder


def _next_previous(folder: RunFolder) -> Path:
    previous = folder.path / "previous"
    numbers = [int(entry.name) for entry in previous.glob("*") if entry.name.isdigit()]
    return previous / str(max(numbers, default=0) + 1)


def _set_aside(folder: RunFolder, target: Path) -> None:
    present = [record for record in folder.records() if record.exists()]
    if not present:
        return
    target.mkdir(parents=True, exist_ok=True)
    for record in present:
        record.rename(target / record.name)

"""The folder of a run, runs/NAME: what it ran with, and what came out.

config.yaml      the whole configuration, resolved          metrics.jsonl   one JSON object a step
sizes.json       sizes derived from it                      tensorboard/    the same as curves
command.txt      the command line                           order.txt/.svg  the order of a step and its drawing
previous/N/      the same of earlier runs of this name      huggingface/    the trained model
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusedrl.checkpoint.atomic import write_file


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
    def order(self) -> Path:
        return self.path / "order.txt"

    @property
    def drawing(self) -> Path:
        return self.path / "order.svg"

    @property
    def huggingface(self) -> Path:
        return self.path / "huggingface"

    def records(self) -> tuple[Path, ...]:
        """What belongs to one run only. Orders and models stay in place: the new run may read them before it writes."""
        return (self.config, self.sizes, self.command, self.metrics, self.tensorboard)


def open_run_folder(
    path: Path, *, config_yaml: str, sizes: Mapping[str, object], command: Sequence[str], resume: bool = False
) -> RunFolder:
    """Make the folder and save what the run runs with; on rank 0 only.

    Records of an earlier run of the same name move to previous/N; a resumed run goes on with them.
    """
    folder = RunFolder(path)
    path.mkdir(parents=True, exist_ok=True)
    if not resume:
        _set_aside(folder)
    write_file(folder.config, config_yaml)
    write_file(folder.sizes, json.dumps(sizes, indent=2) + "\n")
    write_file(folder.command, shlex.join(command) + "\n")
    return folder


def _set_aside(folder: RunFolder) -> None:
    present = [record for record in folder.records() if record.exists()]
    if not present:
        return
    previous = folder.path / "previous"
    numbers = [int(entry.name) for entry in previous.glob("*") if entry.name.isdigit()]
    target = previous / str(max(numbers, default=0) + 1)
    target.mkdir(parents=True)
    for record in present:
        record.rename(target / record.name)

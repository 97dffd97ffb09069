"""What the sinks of W&B and MLflow share: their folder, the id of a run that a resumed run goes on with, names.

runs/NAME/tracking/wandb, wandb_id.txt, mlflow, mlflow_id.txt      moves to previous/N with the records of its run
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.atomic import write_file


class Tracker:
    """A sink of a tracker. failed: whether the run ended by an error, for `close` to tell."""

    name = ""

    def __init__(self, folder: Path) -> None:
        """folder: runs/NAME/tracking."""
        self.failed = False
        self.folder = folder / self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._id = folder / f"{self.name}_id.txt"

    @property
    def kept_id(self) -> str | None:
        """Of the tracker's run that this run goes on with."""
        return self._id.read_text().strip() or None if self._id.exists() else None

    def keep_id(self, run_id: str) -> None:
        write_file(self._id, run_id + "\n")


def finite(metrics: Mapping[str, Any]) -> dict[str, float]:
    """As numbers; those that are not finite leave a gap, as in TensorBoard."""
    numbers = {name: float(value) for name, value in metrics.items()}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """(actor_rollout_ref.actor.optim.lr, 1e-6) ... of a nested configuration."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def plain_name(name: str) -> str:
    """A metric's name in the characters that MLflow takes: mean@1 becomes mean_at_1, as verl has it."""
    return re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))

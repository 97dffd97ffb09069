"""Metrics as TensorBoard curves: `tensorboard --logdir runs`."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoardWriter:
    """A sink of one folder of event files. Values that are not finite leave a gap in the curve.

    `keep_through`: on resuming from that step, later points of files in the folder are hidden.
    """

    name = "tensorboard"

    def __init__(self, folder: Path, *, keep_through: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter  # 1 s to import: only where asked for

        purge = None if keep_through is None else keep_through + 1
        self._writer: Any = SummaryWriter(str(folder), purge_step=purge)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        for name, value in metrics.items():
            number = float(value)
            if math.isfinite(number):
                self._writer.add_scalar(name, number, step)

    def close(self) -> None:
        self._writer.close()

"""Metrics as TensorBoard curves: `tensorboard --logdir runs`."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoardWriter:
    """A sink of one folder of event files. Values that are not finite leave a gap in the curve."""

    name = "tensorboard"

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter  # 1 s to import: only where asked for

        self._writer: Any = SummaryWriter(str(folder))

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        for name, value in metrics.items():
            number = float(value)
            if math.isfinite(number):
                self._writer.add_scalar(name, number, step)

    def close(self) -> None:
        self._writer.close()

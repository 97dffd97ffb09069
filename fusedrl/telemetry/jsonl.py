"""metrics.jsonl: one JSON object a step, each line written whole.

    {"step": 3, "critic/score/mean": 0.5, "actor/grad_norm": null, "telemetry/nonfinite": 1}

JSON has no NaN and no infinity: such a value becomes null, and telemetry/nonfinite counts them. A line that a kill cut
short is removed when the file is opened again, so every line of the file can be read.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.atomic import write_file

NONFINITE = "telemetry/nonfinite"


def encode_line(step: int, metrics: Mapping[str, Any]) -> str:
    """One line, with its newline. Values: numbers, or 0-dimensional tensors and arrays; raises TypeError for others."""
    values = {name: _number(name, value) for name, value in metrics.items()}
    lost = sum(value is None for value in values.values())
    return json.dumps({"step": step, **values, NONFINITE: lost}, allow_nan=False) + "\n"


def _number(name: str, value: Any) -> float | int | None:
    plain = value.item() if hasattr(value, "item") else value
    if not isinstance(plain, int | float):
        raise TypeError(f"metric {name} is {type(value).__name__}, not a number")
    return plain if math.isfinite(plain) else None


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a metrics file; a last line without its newline was cut short and is left out."""
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


class JsonlWriter:
    """Appends to a metrics file. `keep_through`: on resuming from that step, later lines of the file are dropped."""

    name = "metrics.jsonl"

    def __init__(self, path: Path, *, keep_through: int | None = None) -> None:
        if path.exists():
            _repair(path, keep_through=keep_through)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        line = encode_line(step, metrics).encode()
        written = os.write(self._descriptor, line)  # one call: another process never sees half a line
        if written != len(line):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise OSError(f"only {written} of {len(line)} bytes of step {step} could be written: is the disk full?")

    def close(self) -> None:
        os.close(self._descriptor)


def _repair(path: Path, *, keep_through: int | None) -> None:
    kept = [line for line in read_lines(path) if keep_through is None or line["step"] <= keep_through]
    whole = "".join(json.dumps(line) + "\n" for line in kept)
    if whole != path.read_text():
        write_file(path, whole)

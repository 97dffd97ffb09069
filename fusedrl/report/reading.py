"""What lies in a run's folder, as far as it can be read; each thing that cannot is a line in `problems`.

A last line that a kill cut short, or that is being written, is passed over. A metric that is no finite number is None.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

METRICS, CONFIG, COMMAND, ORDER = "metrics.jsonl", "config.yaml", "command.txt", "order.svg"
LARGEST_NUMBER = 1e150  # beyond it nothing can be drawn
LARGEST = 64 * 2**20  # bytes of a trace or of samples that are still read


@dataclass
class RunRecords:
    """rows: the metrics of each step, in the sequence of steps; samples: those of the last validation."""

    folder: Path
    rows: list[dict[str, float | None]] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    samples: list[dict[str, Any]] = field(default_factory=list)
    validation: Path | None = None
    trace: dict[str, Any] | None = None
    traces: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """All metrics, in the sequence in which they first came."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


def read_run(folder: Path) -> RunRecords:
    """Raises ValueError where the folder is none, or holds nothing of a run."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; name that of a run, runs/NAME")
    if not any((folder / name).exists() for name in (METRICS, CONFIG)):
        raise ValueError(f"{folder}: not the folder of a run, for it has neither {METRICS} nor {CONFIG}")
    records = RunRecords(folder)
    records.rows = _rows(records)
    records.config = _config(records)
    records.command = (_read(records, folder / COMMAND) or "").strip() if (folder / COMMAND).exists() else ""
    records.validation = _latest(folder / "validation", "step_*.jsonl")
    if records.validation is not None:
        records.samples = list(_objects(records, records.validation))
    records.traces = sorted(folder.glob("trace_step*.json"), key=_step_of)
    records.trace = _trace(records, records.traces[-1]) if records.traces else None
    return records


def _read(records: RunRecords, path: Path) -> str | None:
    name = path.relative_to(records.folder)
    try:
        if path.stat().st_size > LARGEST and path.name != METRICS:
            records.problems.append(f"{name} is larger than {LARGEST // 2**20} MiB and left out")
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        records.problems.append(f"{name} cannot be read: {error.strerror or error}")
        return None


def _objects(records: RunRecords, path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a jsonl file; lines that hold none are told together."""
    lines = (_read(records, path) or "").split("\n")
    bad = []
    for number, line in enumerate(lines[:-1], 1):  # after the last newline: nothing, or a line that was cut
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            yield found
        elif line.strip():
            bad.append(number)
    if bad:
        records.problems.append(
            f"{path.relative_to(records.folder)}: {len(bad)} lines hold no JSON object, the first is line {bad[0]}"
        )


def _rows(records: RunRecords) -> list[dict[str, float | None]]:
    path = records.folder / METRICS
    if not path.exists():
        records.problems.append(f"{METRICS} is missing: no curves")
        return []
    rows: dict[int, dict[str, float | None]] = {}
    strange = 0
    for found in _objects(records, path):
        step = _number(found.pop("step", None))
        if step is None:
            strange += 1
            continue
        rows.setdefault(int(step), {}).update((name, _number(value)) for name, value in found.items())
    if strange:
        records.problems.append(f"{METRICS}: {strange} lines name no step")
    if not rows:
        records.problems.append(f"{METRICS} holds no step yet: no curves")
    return [{"step": float(step), **rows[step]} for step in sorted(rows)]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST_NUMBER else None  # a NaN is not less


def _config(records: RunRecords) -> dict[str, Any]:
    path = records.folder / CONFIG
    if not path.exists():
        records.problems.append(f"{CONFIG} is missing: no configuration")
        return {}
    try:
        found = yaml.safe_load(_read(records, path) or "{}")
    except (yaml.YAMLError, RecursionError) as error:
        records.problems.append(f"{CONFIG} is not valid YAML: {' '.join(str(error).split())}")
        return {}
    if not isinstance(found, dict):
        records.problems.append(f"{CONFIG} holds no keys")
        return {}
    return found


def _trace(records: RunRecords, path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(_read(records, path) or "null")
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and isinstance(found.get("traceEvents"), list):
        return found
    records.problems.append(f"{path.name} holds no trace")
    return None


def _latest(folder: Path, pattern: str) -> Path | None:
    return max(folder.glob(pattern), key=_step_of, default=None)


def _step_of(path: Path) -> int:
    found = re.search(r"(\d+)$", path.stem)
    return int(found[1]) if found else -1

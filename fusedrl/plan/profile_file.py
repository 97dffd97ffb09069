"""A profile: what a machine took for the parts of calls, as `python -m fusedrl.profile` writes it and costs read it.

    about: {device: ..., torch: ..., ...}            dtype: float32
    models: {tiny: {model_type: llama, ...}}         the keys of a config.json
    tables:
    - {of: layer, model: tiny, tp: 1, sizes: [tokens, length], ms: [F, B, W], rows: [[64, 16, 0.9, 1.7, 0.6], ...]}

Times are milliseconds. A table's rows are its sizes and then its times; every combination of sizes is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fusedrl.data.json_object import JsonObject
from fusedrl.models.architecture import Architecture
from fusedrl.plan.grid import Grid, Point

PASSES = ("F", "B", "W")
SIZES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "layer": (("tokens", "length"), PASSES),
    "embedding": (("tokens",), PASSES),
    "head_lm": (("tokens",), PASSES),
    "head_value": (("tokens",), PASSES),
    "whole": (("tokens", "length"), ("F", "B")),
    "prefill": (("tokens", "length"), ("all",)),
    "decode": (("rows", "context"), ("all",)),
    "decode_ends": (("rows",), ("all",)),
    "message": (("bytes",), ("all",)),
    "collective": (("bytes",), ("all",)),
    "host_copy": (("bytes",), ("all",)),
    "optimizer_step": (("parameters",), ("all",)),
}
"""Of each kind of table: its sizes and its times. whole: embedding, so many `layers` and head in one go; it answers for
no costs, but tells how much the parts leave out."""
Points = dict[Point, Sequence[float]]
"""Seconds by sizes."""
_HOW = ("model", "tp", "layers", "kind", "ranks", "nodes", "across_nodes")


@dataclass(frozen=True)
class Table:
    """One kind of work, measured over a grid. how: what does not vary in it, such as model and tp."""

    of: str
    how: tuple[tuple[str, Any], ...]
    grid: Grid

    def get(self, key: str) -> Any:
        return dict(self.how).get(key)


@dataclass(frozen=True)
class Profile:
    """about: machine and versions, for people. models: whose layers were measured, by name."""

    about: Mapping[str, Any]
    dtype: str
    models: Mapping[str, Architecture]
    tables: tuple[Table, ...]

    def find(self, of: str, **how: Any) -> Table | None:
        """The table of this kind that was measured so."""
        return next((each for each in self.of(of) if all(each.get(k) == v for k, v in how.items())), None)

    def of(self, of: str) -> Iterator[Table]:
        return (each for each in self.tables if each.of == of)


def make_table(of: str, points: Points, **how: Any) -> Table:
    """points: seconds by sizes; to 6 digits, as the file has them."""
    rounded = {at: tuple(_seconds(_ms(each)) for each in seconds) for at, seconds in points.items()}
    return Table(of, tuple(how.items()), Grid.of(rounded))


def profile_text(profile: Profile) -> str:
    """The file."""
    head = {"about": dict(profile.about), "dtype": profile.dtype}
    models = {"models": {name: _config(arch) for name, arch in profile.models.items()}}
    lines = ["# Measured by python -m fusedrl.profile; read by fusedrl.plan. Times in ms."]
    lines.append(_dump(head) + _dump(models) + "tables:")
    return "\n".join([*lines, *map(_table_text, profile.tables)]) + "\n"


def read_profile(path: str | Path) -> Profile:
    """Raises ValueError with the file and the table that is wrong."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"profile {path}: cannot be read: {' '.join(str(error).split())}") from error
    file = JsonObject.of(values, where=f"profile {path}")
    tables = file.values.get("tables")
    if not isinstance(tables, list):
        raise ValueError(f"profile {path}: tables must be a list; write one with python -m fusedrl.profile")
    models = file.inner("models").values
    return Profile(
        about=file.inner("about").values,
        dtype=file.text("dtype"),
        models={name: Architecture.from_config(each, where=f"{path}: {name}") for name, each in models.items()},
        tables=tuple(_table(each, where=f"profile {path}: tables[{i}]") for i, each in enumerate(tables)),
    )


def _table(values: Any, *, where: str) -> Table:
    table = JsonObject.of(values, where=where)
    of, rows = table.text("of"), table.values.get("rows")
    if of not in SIZES:
        raise ValueError(f"{where}: of={of!r} is none of {', '.join(SIZES)}")
    sizes, times = SIZES[of]
    if not isinstance(rows, list) or not all(_is_row(row, len(sizes) + len(times)) for row in rows):
        raise ValueError(f"{where}: rows must be lists of the numbers {', '.join((*sizes, *times))}")
    points = {tuple(row[: len(sizes)]): tuple(map(_seconds, row[len(sizes) :])) for row in rows}
    how = tuple((key, table.values[key]) for key in _HOW if key in table.values)
    try:
        return Table(of, how, Grid.of(points))
    except ValueError as error:
        raise ValueError(f"{where} ({of}): {error}") from error


def _table_text(table: Table) -> str:
    sizes, times = SIZES[table.of]
    rows = [[*map(_whole, at), *map(_ms, table.grid.points[at])] for at in sorted(table.grid.points)]
    head = {"of": table.of, **dict(table.how), "sizes": list(sizes), "ms": list(times)}
    return (
        "- "
        + _dump(head).replace("\n", "\n  ")
        + "rows:\n"
        + "\n".join(f"  - [{', '.join(map(_number, row))}]" for row in rows)
    )


def _number(x: float) -> str:
    """YAML takes 1e-06 for text."""
    text = repr(x)
    return text if "." in text else text.replace("e", ".0e")


def _is_row(row: Any, length: int) -> bool:
    return (
        isinstance(row, list)
        and len(row) == length
        and all(isinstance(x, int | float) and not isinstance(x, bool) for x in row)
    )


def _ms(seconds: float) -> float:
    return float(f"{1e3 * seconds:.6g}")


def _whole(size: float) -> float:
    return int(size) if size == int(size) else size


def _seconds(ms: float) -> float:
    return ms / 1e3


def _config(arch: Architecture) -> dict[str, Any]:
    return {key: value for key, value in arch.to_config().items() if value is not None}


def _dump(values: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(values), sort_keys=False, default_flow_style=None, width=116)

"""The JSON-lines file: a line a row, appended as soon as the row is done, with all that is needed to run it again."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from schedules.bench.table import Facts, RowError, Settings

_KEYS = {"table", "row", "settings", "versions", "facts"}


def append(path: Path, *, table: str, row: str, settings: Settings, facts: Facts) -> None:
    """Add a row in one write."""
    versions = {"python": platform.python_version()} | {name: version(name) for name in ("numba", "ortools")}
    line = {"table": table, "row": row, "settings": asdict(settings), "versions": versions, "facts": facts}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """All rows of the files. RowError names the file and the line of what is none."""
    return [_parsed(text, f"{path}: line {n}") for path in paths for n, text in enumerate(_lines(path), start=1)]


def done(path: Path, *, table: str, settings: Settings) -> set[str]:
    """The rows of a table that a file has under the same settings."""
    rows = read([path]) if path.exists() else []
    return {line["row"] for line in rows if line["table"] == table and line["settings"] == asdict(settings)}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _parsed(text: str, place: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict) or set(line) != _KEYS:
        raise RowError(f"{place}: not a row of a table; remove the line and run the row again")
    return line

"""The JSON-lines file: a line a row, appended as soon as the row is done, with all that is needed to run it again."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from schedules.bench.table import Facts, RowError, Settings

_KEYS = {"table": str, "row": str, "settings": dict, "versions": dict, "facts": dict}


def append(path: Path, *, table: str, row: str, settings: Settings, facts: Facts) -> None:
    """Add a row in one write, on a line of its own where the last one was cut at its end."""
    versions = {"python": platform.python_version()} | {name: version(name) for name in ("numba", "ortools")}
    line = {"table": table, "row": row, "settings": asdict(settings), "versions": versions, "facts": facts}
    there = path.read_bytes() if path.is_file() else b""
    before = "\n" if there and not there.endswith(b"\n") else ""
    with path.open("a", encoding="utf-8") as file:
        file.write(before + json.dumps(line) + "\n")


def read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """All rows of the files. RowError names the file and the line of what is none."""
    return [_parsed(text, f"{path}: line {n}") for path in paths for n, text in enumerate(_lines(path), start=1)]


def done(path: Path, *, table: str, settings: Settings) -> set[str]:
    """The rows of a table that a file has under the same settings."""
    rows = read([path]) if path.is_file() else []
    return {line["row"] for line in rows if line["table"] == table and line["settings"] == asdict(settings)}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise RowError(f"{path}: not a text file; name one that a table was written to") from None


def _parsed(text: str, place: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict) or {key: type(value) for key, value in line.items()} != _KEYS:
        raise RowError(f"{place}: not a row of a table; remove the line and run the row again")
    return line

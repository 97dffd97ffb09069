"""Markdown from JSON-lines files: each table, and under it the settings and versions that its rows were run with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedules.bench.lines import read
from schedules.bench.markdown import cell
from schedules.bench.table import RowError
from schedules.bench.tables import TABLES


def report(paths: Sequence[Path]) -> str:
    """All tables of the files, in the tables' own sequence of rows; of a row run more than once the last one counts."""
    lines = read(paths)
    sections = [_section(name, own) for name in TABLES if (own := [line for line in lines if line["table"] == name])]
    if not sections:
        raise RowError(f"{', '.join(map(str, paths))}: no row of any table ({', '.join(TABLES)}); run one first")
    return "\n".join(sections)


def _section(name: str, lines: list[dict[str, Any]]) -> str:
    latest = {line["row"]: line for line in lines}
    ordered = [key for key in TABLES[name].keys if key in latest]
    try:
        body = TABLES[name].report({key: latest[key]["facts"] for key in ordered})
    except (KeyError, TypeError, ValueError) as error:
        raise RowError(
            f"{name}: facts that are none of this table's ({error!r}); remove their lines, run again"
        ) from None
    notes = dict.fromkeys(_note(latest[key]) for key in ordered)
    return f"## {name}\n\n{body}\n" + "".join(f"{note}\n" for note in notes)


def _note(line: dict[str, Any]) -> str:
    values = line["settings"] | line["versions"]
    return "Run with " + ", ".join(f"{key} {cell(value)}" for key, value in values.items() if value is not None) + "."

"""Markdown tables."""

from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; cells are text, whole numbers, fractions to six digits, True and False (yes, no) or None (a dash)."""
    lines = [[*head], ["---"] * len(head), *([cell(value) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(value: Any) -> str:
    """A value as a cell."""
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def percent(ratio: float) -> str:
    """A ratio in percent."""
    return f"{ratio:.1%}".replace("%", " %")

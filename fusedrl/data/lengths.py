"""Rows that are too long: left out (counted), an error, or cut, by data.truncation."""

from collections.abc import Sequence
from typing import Literal, TypeVar

from fusedrl.data.rows import Row

Truncation = Literal["filter", "error", "truncate"]
Pair = TypeVar("Pair", bound=tuple[Row, tuple[int, ...]])


def within(
    pairs: Sequence[tuple[Row, tuple[int, ...]]], *, limit: int, truncation: str, key: str
) -> tuple[list[tuple[Row, tuple[int, ...]]], int]:
    """(rows that fit, number of rows left out or cut). `key` names the limit in errors.

    truncate keeps the end of a prompt, where the question stands in most templates.
    """
    kept, touched = [], 0
    for row, tokens in pairs:
        if len(tokens) <= limit:
            kept.append((row, tokens))
            continue
        if truncation == "error":
            raise ValueError(
                f"{row.place}: {len(tokens)} tokens, {key}={limit}; raise it, or set data.truncation=filter or truncate"
            )
        touched += 1
        if truncation == "truncate":
            kept.append((row, tokens[-limit:]))
    if not kept:
        raise ValueError(f"{key}={limit}: all {len(pairs)} rows are longer; raise it")
    return kept, touched

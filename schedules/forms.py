"""Quantities of a model that may differ by stage and by micro-batch: durations and activations.

A quantity is written in the shortest of three forms and kept that way, so that equal quantities compare equal:

    5                       one number for all stages and micro-batches
    [5, 5, 6]               one number per stage
    [[5, 4], [5, 4], ...]   stage x micro-batch
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

Form: TypeAlias = float | Sequence[float] | Sequence[Sequence[float]]


def entry(form: Form, stage: int, microbatch: int) -> float:
    """The quantity of one stage and micro-batch."""
    if isinstance(form, (int, float)):
        return float(form)
    row = form[stage]
    return float(row) if isinstance(row, (int, float)) else float(row[microbatch])


def compact(value: object, *, stages: int, microbatches: int, place: str) -> Form:
    """Check a quantity and bring it to its shortest form. Errors name `place`, the entry and the sizes."""
    if not isinstance(value, (list, tuple)):
        return number(value, place)
    if len(value) != stages:
        raise ValueError(f"{place}: {len(value)} entries for {stages} stages; give one number or one entry per stage")
    return _shortest(tuple(_stage_entry(item, microbatches, f"{place}[{s}]") for s, item in enumerate(value)))


def number(value: object, place: str) -> float:
    """A finite number of at least 0, or a ValueError that names the place."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{place}: expected a number, got {value!r}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{place}: expected a finite number of at least 0, got {value}")
    return float(value)


def plain(form: Form) -> object:
    """The form as YAML and JSON write it: whole numbers without a fraction, lists for tuples."""
    if isinstance(form, (int, float)):
        return int(form) if float(form).is_integer() else float(form)
    return [plain(item) for item in form]


def _stage_entry(item: object, microbatches: int, place: str) -> float | tuple[float, ...]:
    if not isinstance(item, (list, tuple)):
        return number(item, place)
    if len(item) != microbatches:
        raise ValueError(f"{place}: {len(item)} entries for {microbatches} micro-batches")
    row = tuple(number(value, f"{place}[{m}]") for m, value in enumerate(item))
    return row[0] if len(set(row)) == 1 else row


def _shortest(rows: tuple[float | tuple[float, ...], ...]) -> Form:
    """One number where all stages agree; otherwise one per stage, or all entries where any stage needs them."""
    if len(set(rows)) == 1 and not isinstance(rows[0], tuple):
        return rows[0]
    widths = [len(row) for row in rows if isinstance(row, tuple)]
    if not widths:
        return tuple(row for row in rows if not isinstance(row, tuple))
    return tuple(row if isinstance(row, tuple) else (row,) * widths[0] for row in rows)

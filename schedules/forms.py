"""Quantities of a model that may differ by stage and by micro-batch: durations and activations.

A quantity is written in the shortest of three forms and kept that way, so that equal quantities compare equal:

    5                       one number for all stages and micro-batches
    [5, 5, 6]               one number per stage
    [[5, 4], [5, 4], ...]   stage x micro-batch
"""

import reprlib
from collections.abc import Sequence
from typing import TypeAlias

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 2
LARGEST = 1e100  # of a quantity: sums of all ops stay finite, and searches may multiply
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
    if isinstance(value, str):
        raise ValueError(f"{place}: expected a number, got the text {shown(value)}; write numbers without quotes")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{place}: expected a number, got {shown(value)}")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{place}: expected a finite number of at least 0, got {shown(value)}")
    if value > LARGEST:
        raise ValueError(f"{place}: expected a number of at most {LARGEST:g}, got {shown(value)}; take a larger unit")
    return float(value)


def shown(value: object) -> str:
    """A wrong value for an error: as written, but short even where lists hold each other a thousandfold."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python writes out no integer of more than 4300 digits
        return "a number of thousands of digits"


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

"""The legend of a Gantt chart: a key for each (model, kind) of the order, one for the mark of later stages."""

from collections.abc import Sequence
from typing import Any

from schedules.draw.colors import kind_color
from schedules.order import Order
from schedules.problem import Problem

_MOST_KEYS = 24
_MOST_COLUMNS = 9
_SHOWN = 24  # characters of a model's name
_LETTER, _SWATCH = 0.62, 5.0  # widths in font sizes, of a letter and of a key's patch with the room around it
_INCH = 72.0  # points


def legend_keys(problem: Problem, order: Order) -> list[Any]:
    """The keys as matplotlib patches, model by model, F before B before W."""
    from matplotlib.patches import Patch

    present = {(op.model, op.kind) for row in order.rows for op in row}
    keys = [
        Patch(facecolor=kind_color(i, kind), label=f"{_short(model.name)} {kind}")
        for i, model in enumerate(problem.models)
        for kind in ("F", "B", "W")
        if (model.name, kind) in present
    ]
    if len(keys) > _MOST_KEYS:
        keys = [*keys[:_MOST_KEYS], Patch(facecolor="none", label=f"and {len(keys) - _MOST_KEYS} more")]
    if any(len(model.stages_on(rank)) > 1 for model in problem.models for rank in range(problem.ranks)):
        keys.append(Patch(facecolor="black", label="strip: later stage"))
    return keys


def legend_columns(keys: Sequence[Any], *, width: float, size: float) -> int:
    """How many keys stand side by side in a figure of that width in inches, in letters of that size in points."""
    widths = [size * (_SWATCH + _LETTER * len(key.get_label())) for key in keys]
    room = 0.9 * width * _INCH
    if len(keys) <= _MOST_COLUMNS and sum(widths) <= room:
        return len(keys)
    return max(1, min(_MOST_COLUMNS, int(room / max(widths))))


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN else name[:_SHOWN] + "..."

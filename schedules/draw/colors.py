"""Colours of ops: a hue per model, F light, B darker, W darkest; the ink of what is written on them."""

import colorsys

from schedules.order import Op
from schedules.problem import Kind, Problem

Color = tuple[float, float, float]

_HUES = (0.58, 0.07, 0.38, 0.79, 0.97, 0.15, 0.48, 0.68, 0.27, 0.88)  # blue, orange, green, violet, red, gold, ...
_LIGHTNESS: dict[Kind, float] = {"F": 0.80, "B": 0.55, "W": 0.34}
_SATURATION = 0.68
_LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue to the eye (ITU-R BT.601)


def color_of(problem: Problem, op: Op) -> Color:
    """The colour of an op, by its model and kind."""
    return kind_color([model.name for model in problem.models].index(op.model), op.kind)


def kind_color(index: int, kind: Kind) -> Color:
    """The colour of one kind of op of the problem's model number `index`; after ten models the hues come again."""
    return colorsys.hls_to_rgb(_HUES[index % len(_HUES)], _LIGHTNESS[kind], _SATURATION)


def ink_on(color: Color) -> str:
    """Black or white, whichever is read better on a colour."""
    return "black" if sum(w * part for w, part in zip(_LUMINANCE, color, strict=True)) > 0.45 else "white"

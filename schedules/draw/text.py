"""An order as a text grid: one line a rank, time to the right, folded like text where it is longer than a line.

    time     0         10        20
    rank 0  |A0-A1-....a0----C0a1--
             forward in upper case, backward in lower case, its weight part with a star; dots are bubbles

A column is the longest time of which all ops are multiples, or more where there is no room for that (the head tells).
A number that has no room is left out: 'A--' is some op of A, never the start of a longer number.
"""

import math
import os
import shutil
import textwrap
from dataclasses import dataclass
from typing import TextIO

from schedules.draw.colors import Color, color_of, ink_on
from schedules.order import Op, Order
from schedules.problem import Problem
from schedules.replay import Replay, replay

_SHORTEST = 1e-3  # columns; ops below that at the finest scale do not count in its choice
_FINEST = 12  # columns of the shortest op, where so many make all ops whole
_PLAIN = 3  # columns of the shortest op, where no number does
_RULER = 10  # columns from mark to mark
_LEVELS = (0, 95, 135, 175, 215, 255)  # of red, green and blue in a terminal's colours
_MOST_LINES = 300  # of all folds together
Style = tuple[Color, str] | None  # a cell's background and ink


@dataclass(frozen=True)
class Cell:
    """One character, and its colours on a terminal."""

    text: str = "."
    style: Style = None


@dataclass(frozen=True)
class Scale:
    """How many columns the whole makespan takes."""

    makespan: float
    columns: float

    def column(self, time: float) -> int:
        """Where a time stands. Halves go up: an op of whole columns keeps them wherever it starts."""
        return math.floor(time / self.makespan * self.columns + 0.5 + 1e-6) if self.makespan else 0

    def time(self, column: int) -> float:
        """The time of a column."""
        return column / self.columns * self.makespan


def scale_of(result: Replay, *, room: int) -> Scale:
    """The fewest columns that give all ops a whole number, else _PLAIN to the shortest op; at most `room` in all.

    Times between ops, as of messages, need not be whole; they are rounded.
    """
    makespan = result.makespan
    shares = {(result.end[op] - begin) / makespan for op, begin in result.start.items()} if makespan else set()
    shortest = min((share for share in shares if share * room > _SHORTEST), default=0.0)
    if not shortest:
        return Scale(makespan, 1.0 if not makespan else float(room))
    for columns in (k / shortest for k in range(1, _FINEST + 1)):
        if all(abs(share * columns - round(share * columns)) < 1e-6 for share in shares):
            return Scale(makespan, min(columns, float(room)))
    return Scale(makespan, min(_PLAIN / shortest, float(room)))


def text_grid(
    problem: Problem, order: Order, *, width: int = 120, most_folds: int | None = None, color: bool = False
) -> str:
    """The grid in lines of up to `width` columns for the time, under lines that say what it shows.

    most_folds: how often the grid may be folded, where a shorter one is wanted than all of it; the scale gives way.
    """
    result = replay(problem, order)
    letters = _letters([model.name for model in problem.models])
    folds = most_folds or max(1, _MOST_LINES // (problem.ranks + 2))
    scale = scale_of(result, room=width * folds)
    rows = [_cells(problem, row, result, letters, scale) for row in order.rows]
    lines = textwrap.wrap(_summary(problem, result, letters, scale), max(40, width + 9))
    columns = max(1, scale.column(result.makespan))
    for begin in range(0, columns, width):
        end = min(columns, begin + width)
        lines += ["time     " + _ruler(begin, end, scale)]
        lines += [f"rank {rank:<3}|{_line(row[begin:end], color=color)}" for rank, row in enumerate(rows)]
    return "\n".join(lines) + "\n"


def room_of(stream: TextIO) -> int:
    """The columns that a stream has for the time: those of its terminal or of $COLUMNS, else 120."""
    return max(20, shutil.get_terminal_size((129, 24)).columns - 9) if stream.isatty() else 120


def takes_color(stream: TextIO) -> bool:
    """Whether to colour what goes to a stream: terminals only, and none that asks for no colours (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _cells(problem: Problem, row: tuple[Op, ...], result: Replay, letters: dict[str, str], scale: Scale) -> list[Cell]:
    cells = [Cell()] * max(1, scale.column(result.makespan))
    for op in row:
        begin, end = scale.column(result.start[op]), scale.column(result.end[op])
        background = color_of(problem, op)
        style = (background, ink_on(background))
        cells[begin:end] = [Cell(text, style) for text in _label(op, letters, room=end - begin)]
    return cells


def _label(op: Op, letters: dict[str, str], *, room: int) -> str:
    """What an op shows: its letter, the star of W, the micro-batch; as much of it as there is room for all of."""
    letter = letters[op.model] if op.kind == "F" else letters[op.model].lower()
    star = "*" if op.kind == "W" else ""
    whole = f"{letter}{star}{op.microbatch}"
    text = whole if len(whole) <= room else (star or letter) if room == 1 else letter + star
    return text[:room].ljust(room, "-")


def _line(cells: list[Cell], *, color: bool) -> str:
    if not color:
        return "".join(cell.text for cell in cells)
    parts, style = [], None
    for cell in cells:
        if cell.style != style:
            style = cell.style
            parts.append(_escape(style))
        parts.append(cell.text)
    return "".join(parts) + ("" if style is None else _escape(None))


def _escape(style: Style) -> str:
    """The terminal's code for a style: of its 256 colours those of the 6 x 6 x 6 cube, from 16 on, or back to none."""
    if style is None:
        return "\x1b[0m"
    red, green, blue = (min(range(6), key=lambda k: abs(_LEVELS[k] - 255 * part)) for part in style[0])
    return f"\x1b[48;5;{16 + 36 * red + 6 * green + blue};38;5;{16 if style[1] == 'black' else 231}m"


def _ruler(begin: int, end: int, scale: Scale) -> str:
    """Times over their columns, each where the mark before it leaves the room."""
    line = ""
    for column in range(begin, end, _RULER):
        if len(line) <= column - begin:
            line = line.ljust(column - begin) + f"{scale.time(column):.6g} "
    return line[: end - begin].rstrip()


def _summary(problem: Problem, result: Replay, letters: dict[str, str], scale: Scale) -> str:
    names = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    return (
        f"{names}; makespan {result.makespan:g}, bubble ratio {result.bubble_ratio:.2%}, "
        f"peak memory {result.max_peak_memory:g}; upper case F, lower case B, star W; {_scale_note(result, scale)}"
    )


def _scale_note(result: Replay, scale: Scale) -> str:
    note = f"a column is {scale.time(1):.4g} of time"
    hidden = sum(scale.column(result.start[op]) == scale.column(end) for op, end in result.end.items())
    return f"{note}, too much for {hidden} of the ops" if hidden else note


def _letters(names: list[str]) -> dict[str, str]:
    """A capital for each model: one of its name if free, else the next free one."""
    letters: dict[str, str] = {}
    for name in names:
        wanted = [c.upper() for c in name if c.isascii() and c.isalpha()] + list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        letters[name] = next((c for c in wanted if c not in letters.values()), "?")
    return letters

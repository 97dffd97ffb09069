"""An order as a Gantt chart (SVG or PNG): one row a rank, a hue per model, F light, B darker, W darkest.

Below it the memory in flight on each rank. Micro-batch numbers stand only in blocks that are wide enough. The picture
is bounded: beyond _MOST_BLOCKS ops the rows are painted as pixels, whatever the number of ranks.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedules.bounds import lower_bound
from schedules.draw.blocks import Block, blocks_of, pixels_of
from schedules.draw.colors import ink_on
from schedules.draw.legend import legend_columns, legend_keys
from schedules.draw.memory_chart import draw_memory
from schedules.draw.title import title
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import Replay, replay

_MOST_BLOCKS = 20_000
_MOST_LABELS = 4_000
_LABEL_SIZES = (8.0, 6.5, 5.0)  # points
_DIGIT, _LINE = 0.66, 1.15  # width of a digit and height of a line, in font sizes
_INCH = 72.0  # points
_DPI = 150
_TURN = 0.10  # of a row's height: the strip that marks a later stage on the rank
_ROW = 0.88  # of the distance of rows that a block is high


def save_gantt(path: str | Path, *, problem: Problem, order: Order) -> None:
    """Write the chart; the ending of `path` (.svg or .png) picks the format."""
    import matplotlib

    figure = gantt(problem, order)
    dated = {"Date": None} if Path(path).suffix.lower() == ".svg" else None
    with matplotlib.rc_context({"svg.hashsalt": "fusedrl"}):  # the same order gives the same file
        figure.savefig(path, metadata=dated, dpi=_DPI)


def gantt(problem: Problem, order: Order) -> Any:
    """The chart as a matplotlib figure."""
    from matplotlib.figure import Figure

    result = replay(problem, order)
    width, rows, memory = figure_size(problem.ranks, longest=max(map(len, order.rows)))
    size = min(11.0, max(8.5, 0.6 * width))
    heading = title(problem, result, bound=lower_bound(problem), columns=int(110 * width / size))
    keys = legend_keys(problem, order)
    columns = legend_columns(keys, width=width, size=size)
    lines = heading.count("\n") + 1 + math.ceil(len(keys) / columns)
    figure = Figure(figsize=(width, rows + memory + 0.7 + lines * size / 45), layout="constrained", dpi=_DPI)
    chart, below = figure.subplots(2, 1, sharex=True, height_ratios=[rows, memory])
    figure.suptitle(heading, fontsize=size, linespacing=1.35)
    style = {"ncols": columns, "frameon": False, "fontsize": size, "handlelength": 1.4}
    chart.legend(handles=keys, loc="lower center", bbox_to_anchor=(0.5, 1.0), **style)
    draw_memory(below, problem, order, result)
    _set_axes(chart, problem, result)
    _draw_rows(chart, problem, order, result)
    return figure


def figure_size(ranks: int, *, longest: int) -> tuple[float, float, float]:
    """Inches: the width, bounded however long the longest row, and the heights of the rows and of the memory."""
    width = min(22.0, 9.0 + 0.09 * longest)
    row = min(0.38, max(0.14, 8.0 / ranks), 16.0 / ranks)
    return width, max(1.2, row * ranks), min(3.0, max(1.6, 0.4 * row * ranks))


def _set_axes(chart: Any, problem: Problem, result: Replay) -> None:
    from matplotlib.ticker import MaxNLocator

    chart.set(ylabel="rank", xlim=(0, result.makespan or 1.0), ylim=(problem.ranks - 0.5, -0.5))
    chart.yaxis.set_major_locator(MaxNLocator(nbins=32, integer=True, steps=[1, 2, 5, 10]))
    chart.tick_params(axis="y", length=0)
    chart.spines[["top", "right", "left"]].set_visible(False)


def _draw_rows(chart: Any, problem: Problem, order: Order, result: Replay) -> None:
    if sum(map(len, order.rows)) > _MOST_BLOCKS:
        image = pixels_of(problem, order, result, columns=int(22 * _DPI))
        extent = (0, result.makespan or 1.0, problem.ranks - 0.5, -0.5)
        chart.imshow(image, extent=extent, aspect="auto")
        return
    blocks = blocks_of(problem, order, result)
    strips = [block for block in blocks if block.turn]
    _fill(chart, [_corners(b) for b in blocks], [b.color for b in blocks], edge=0.3 if len(blocks) < 5000 else 0.1)
    _fill(chart, [_strip(b) for b in strips], ["black"] * len(strips), edge=0.0)
    _write_labels(chart, blocks)


def _fill(chart: Any, shapes: Sequence[Any], colors: Sequence[Any], *, edge: float) -> None:
    from matplotlib.collections import PolyCollection

    chart.add_collection(PolyCollection(shapes, facecolors=colors, edgecolors="white", linewidths=edge))


def _corners(block: Block) -> list[tuple[float, float]]:
    top, bottom = block.top - _ROW / 2, block.bottom + _ROW / 2
    return [(block.begin, top), (block.end, top), (block.end, bottom), (block.begin, bottom)]


def _strip(block: Block) -> list[tuple[float, float]]:
    """Along the foot of a block, higher the later its stage comes on the rank."""
    foot = block.bottom + _ROW / 2
    head = foot - min(0.4, _TURN * block.turn)
    return [(block.begin, head), (block.end, head), (block.end, foot), (block.begin, foot)]


def _write_labels(chart: Any, blocks: list[Block]) -> None:
    """The micro-batch in each block that has the room, measured once the figure is laid out."""
    chart.figure.draw_without_rendering()
    across, up = _points_per_unit(chart)
    alike: dict[tuple[str, str], list[Block]] = {}
    for block in blocks:
        alike.setdefault((block.op.model, block.op.kind), []).append(block)
    labels = [label for group in alike.values() for label in _labels(group, across=across, up=up)]
    for block, size in labels if len(labels) <= _MOST_LABELS else ():
        middle = ((block.begin + block.end) / 2, (block.top + block.bottom) / 2)
        text = str(block.op.microbatch)
        chart.text(*middle, text, ha="center", va="center", fontsize=size, color=ink_on(block.color))


def _labels(blocks: list[Block], *, across: float, up: float) -> list[tuple[Block, float]]:
    """One size for ops of a kind: the largest for which most have the room; a block without it has no number."""
    for size in _LABEL_SIZES:
        fitting = [(block, size) for block in blocks if _fits(block, size, across=across, up=up)]
        if len(fitting) > len(blocks) / 2:
            return fitting
    return []


def _points_per_unit(chart: Any) -> tuple[float, float]:
    box = chart.get_window_extent()
    (left, right), (bottom, top) = chart.get_xlim(), chart.get_ylim()
    inch = _INCH / chart.figure.dpi
    return box.width * inch / (right - left), box.height * inch / abs(top - bottom)


def _fits(block: Block, size: float, *, across: float, up: float) -> bool:
    wide = (block.end - block.begin) * across - 1.0
    high = (block.bottom - block.top + _ROW - 2 * min(0.4, _TURN * block.turn)) * up
    return len(str(block.op.microbatch)) * _DIGIT * size <= wide and _LINE * size <= high

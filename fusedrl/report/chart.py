"""Charts as inline SVG: curves, stacked bars, a histogram. One axis a unit; each mark's <title> tells its numbers.

    curves([Series("planned", [(1, 0.1), (2, None)])], label="bubble", unit="share of rank time")

A value that is missing leaves a gap. Series differ by hue (the colour-blind can tell them) and by dashes.
Above POINTS steps, marks are means of neighbouring steps, and say of which.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fusedrl.trainers.sample_table import as_text

POINTS, HUES = 240, 8
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 230, 58, 10, 12, 30
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4", "4 2 1 2", "12 2")

Point = tuple[float, float | None]  # (step, value)


@dataclass(frozen=True)
class Series:
    """hue, dash: which of each; by default the series' place in the chart."""

    name: str
    points: Sequence[Point]
    hue: int | None = None
    dash: int | None = None


@dataclass(frozen=True)
class _Axes:
    """From data to the drawing's units."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across, up = (x - self.x[0]) / (self.x[1] - self.x[0]), (y - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def number(value: float) -> str:
    """A number as the marks tell it."""
    return f"{value:.5g}"


def thinned(points: Sequence[Point], *, across: str = "step") -> list[tuple[str, float, float | None]]:
    """(steps told, middle step, mean value) of at most POINTS groups of neighbouring steps."""
    size = -(-len(points) // POINTS) or 1
    found = []
    for first in range(0, len(points), size):
        group = points[first : first + size]
        low, high = group[0][0], group[-1][0]
        known = [value for _, value in group if value is not None]
        told = f"{across} {low:g}" if low == high else f"mean of {across}s {low:g} to {high:g}"
        found.append((told, (low + high) / 2, math.fsum(known) / len(known) if known else None))
    return found


def curves(series: Sequence[Series], *, label: str, unit: str, low: float | None = None, across: str = "step") -> str:
    """A line a series over the steps, or what `across` names; `low`: where the axis starts at the latest."""
    lines = [(each, thinned(each.points, across=across)) for each in series]
    values = [y for _, points in lines for _, _, y in points if y is not None]
    if not values:
        return _figure("", label=label, unit=unit, legend=[], note="no finite value")
    steps = [x for _, points in lines for _, x, _ in points]
    axes = _Axes(_range(steps), _range([*values, *([] if low is None else [low])]))
    body = "".join(_line(points, _style(each, k), axes, name=each.name) for k, (each, points) in enumerate(lines))
    missing = sum(value is None for each in series for _, value in each.points)
    note = f"{missing} values are missing or not finite" if missing else ""
    keys = [(each.name, _style(each, k)[0]) for k, each in enumerate(series)]
    return _figure(_grid(axes, across) + body, label=label, unit=unit, legend=keys, note=note)


def stacked(series: Sequence[Series], *, label: str, unit: str) -> str:
    """A bar a step, the series on each other; all series must have the same steps, missing values count nothing."""
    layers = [(each.name, thinned(each.points)) for each in series]
    steps = [x for _, x, _ in layers[0][1]]
    sums = [math.fsum(points[k][2] or 0.0 for _, points in layers) for k in range(len(steps))]
    gap = min((b - a for a, b in pairwise(steps)), default=1.0)
    axes = _Axes((min(steps) - gap / 2, max(steps) + gap / 2), (0.0, _range([0.0, *sums])[1]))
    below, body = [0.0] * len(steps), ""
    for hue, (name, points) in enumerate(layers):
        for k, (told, x, value) in enumerate(points):
            if value:
                box = (x - 0.45 * gap, below[k], x + 0.45 * gap, below[k] + value)
                body += _box(axes, box, hue, told=f"{told}: {name} {number(value)}")
                below[k] += value
    legend = [(each.name, k % HUES) for k, each in enumerate(series)]
    return _figure(_grid(axes, "step") + body, label=label, unit=unit, legend=legend)


def histogram(values: Sequence[int], *, label: str, unit: str) -> str:
    """How often each value comes; above 40 different ones, ranges of equal width."""
    low, high = min(values), max(values)
    width = max(1, -(-(high - low + 1) // 40))
    counts = [0] * ((high - low) // width + 1)
    for value in values:
        counts[(value - low) // width] += 1
    axes = _Axes((low - 0.5, low + width * len(counts) - 0.5), (0.0, _range([0.0, max(counts)])[1]))
    body = ""
    for k, count in enumerate(counts):
        first, last = low + k * width, low + (k + 1) * width - 1
        told = f"{first}: {count}" if first == last else f"{first} to {last}: {count}"
        body += _box(axes, (first - 0.45, 0.0, last + 0.45, float(count)), 0, told=told) if count else ""
    return _figure(_grid(axes, unit) + body, label=label, unit="samples", legend=[])


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From the least to the greatest with some room; never empty."""
    low, high = min(values), max(values)
    size = max(abs(low), abs(high))
    room = 0.05 * (high - low if high - low > 1e-9 * size else size)
    room = room if room > 1e-100 else 0.5
    return (low if low == 0.0 else low - room), high + room


def _ticks(low: float, high: float, *, most: int) -> list[float]:
    """Round numbers within the range."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    return [k * size for k in range(math.ceil(low / size), math.floor(high / size) + 1)]


def _grid(axes: _Axes, below: str) -> str:
    parts = []
    for y in _ticks(*axes.y, most=5):
        _, v = axes.at(axes.x[0], y)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{v:.1f}" y2="{v:.1f}"/>')
        parts.append(f'<text class="end" x="{LEFT - 5}" y="{v + 4:.1f}">{y:.4g}</text>')
    for x in _ticks(*axes.x, most=8):
        if x == round(x):
            u, _ = axes.at(x, axes.y[0])
            parts.append(f'<text class="middle" x="{u:.1f}" y="{HEIGHT - BOTTOM + 14}">{x:.6g}</text>')
    parts.append(f'<text class="middle" x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 3}">{as_text(below)}</text>')
    return "".join(parts)


def _style(series: Series, place: int) -> tuple[int, int]:
    """(hue, dash)."""
    hue, dash = series.hue, series.dash
    return (place if hue is None else hue) % HUES, (place if dash is None else dash) % HUES


def _line(points: Sequence[tuple[str, float, float | None]], style: tuple[int, int], axes: _Axes, *, name: str) -> str:
    hue, dashes = style[0], DASHES[style[1]]
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    parts = []
    for piece in _pieces(points):
        places = " ".join("{:.1f},{:.1f}".format(*axes.at(x, y)) for _, x, y in piece)
        parts.append(f'<polyline class="s{hue}" points="{places}"{dash}/>')
        for told, x, y in piece:
            u, v = axes.at(x, y)
            title = f"<title>{as_text(f'{told}: {name} {number(y)}')}</title>"
            parts.append(f'<circle class="f{hue}" cx="{u:.1f}" cy="{v:.1f}" r="2.2">{title}</circle>')
    return "".join(parts)


def _pieces(points: Sequence[tuple[str, float, float | None]]) -> Iterator[list[tuple[str, float, float]]]:
    """The runs of points without a gap."""
    piece: list[tuple[str, float, float]] = []
    for told, x, y in points:
        if y is not None:
            piece.append((told, x, y))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _box(axes: _Axes, box: tuple[float, float, float, float], hue: int, *, told: str) -> str:
    (left, bottom), (right, top) = axes.at(box[0], box[1]), axes.at(box[2], box[3])
    place = f'x="{left:.2f}" y="{top:.2f}" width="{right - left:.2f}" height="{bottom - top:.2f}"'
    return f'<rect class="f{hue % HUES}" {place}><title>{as_text(told)}</title></rect>'


def _figure(body: str, *, label: str, unit: str, legend: Sequence[tuple[str, int]], note: str = "") -> str:
    """The drawing under its heading, with a legend and what is to be noted."""
    keys = "".join(f'<span><i class="b{hue}"></i>{as_text(name)}</span> ' for name, hue in legend)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{as_text(label)}"'
    drawing = f"<svg {size}>{body}</svg>" if body else ""
    told = f"<p>{as_text(note)}</p>" if note else ""
    heading = f"<b>{as_text(label)}</b> <small>{as_text(unit)}</small>"
    return f'<figure><figcaption>{heading}<div class="legend">{keys}</div></figcaption>{drawing}{told}</figure>\n'

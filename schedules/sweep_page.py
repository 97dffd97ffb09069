"""A sweep on paper: a CSV, a chart per depth, and one HTML page that holds all of it and opens without a network."""

import base64
import csv
import html
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from schedules.search.limits import Limits
from schedules.sweep import CAPLESS, Grid, Point, command_of

_MARKERS = "osD^vP*X<>"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
code { display: block; background: #f4f4f4; padding: .6rem .8rem; overflow-x: auto; white-space: pre-wrap }
img { max-width: 100%; height: auto } .wide { overflow-x: auto }
table { border-collapse: collapse; margin: 1rem 0 2.5rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
th { border-bottom: 2px solid #888; vertical-align: bottom } th.text, td.text { text-align: left }
tr.first td { border-top: 2px solid #bbb } td.best { font-weight: bold } td.over { color: #b00020 }
"""


def write(points: Sequence[Point], folder: Path, *, grid: Grid, limits: Limits) -> None:
    """sweep.csv, one PNG per depth, and index.html."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "sweep.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Point)])
        writer.writeheader()
        writer.writerows(asdict(point) for point in points)
    charts = {depth: chart(of_depth(points, depth), grid=grid) for depth in depths_of(points)}
    for depth, image in charts.items():
        (folder / f"depth{depth}.png").write_bytes(image)
    (folder / "index.html").write_text(page(points, charts, grid=grid, limits=limits), encoding="utf-8")


def depths_of(points: Sequence[Point]) -> list[int]:
    """The depths, each once, in the sequence of the points."""
    return list(dict.fromkeys(point.depth for point in points))


def of_depth(points: Sequence[Point], depth: int) -> list[Point]:
    """The points of one depth."""
    return [point for point in points if point.depth == depth]


def chart(points: Sequence[Point], *, grid: Grid) -> bytes:
    """One depth as a PNG: bubble ratio and peak memory over the micro-batches, a line a method."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(10, 4.4), layout="constrained")
    bubbles, memory = figure.subplots(1, 2)
    for k, method in enumerate(dict.fromkeys(point.method for point in points)):
        own = sorted((p for p in points if p.method == method), key=lambda p: p.microbatches)
        style = {"marker": _MARKERS[k % len(_MARKERS)], "linewidth": 1.4, "markersize": 5, "alpha": 0.9}
        label = f"{method} (no cap)" if grid.cap is not None and method in CAPLESS else method
        bubbles.plot([p.microbatches for p in own], [p.bubble_ratio for p in own], label=label, **style)
        memory.plot([p.microbatches for p in own], [p.peak_memory for p in own], **style)
    _draw_limits(bubbles, memory, points, cap=grid.cap)
    bubbles.set(title="bubble ratio", ylabel="share of rank time without work", ylim=(0, None))
    bubbles.yaxis.set_major_formatter(PercentFormatter(1.0))
    highest = max(grid.cap or 0.0, *(point.peak_memory for point in points), 0.1)
    memory.set(title="peak memory", ylabel="multiples of serial 1F1B's peak", ylim=(0, 1.1 * highest))
    for axes in (bubbles, memory):
        _label_microbatches(axes, sorted({point.microbatches for point in points}))
    figure.suptitle(f"{points[0].depth} ranks; {costs_of(grid)}", fontsize=9)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    return image.getvalue()


def costs_of(grid: Grid) -> str:
    """The cost model and the cap."""
    cap = "none" if grid.cap is None else f"{grid.cap:g} x serial 1F1B's peak"
    forwards = f"forward {grid.actor_forward:g} (actor), {grid.critic_forward:g} (critic), backward twice"
    return f"{forwards}, comm {grid.comm:g}, memory cap {cap}"


def page(points: Sequence[Point], charts: dict[int, bytes], *, grid: Grid, limits: Limits) -> str:
    """The HTML page; nothing in it is loaded from elsewhere."""
    sections = "".join(_section(of_depth(points, depth), charts[depth], cap=grid.cap) for depth in depths_of(points))
    capless = [m for m in CAPLESS if m in grid.methods]
    note = f" The cap does not bind {', '.join(capless)}; red is above it." if grid.cap is not None and capless else ""
    costs = costs_of(grid)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Bubble ratios of fused schedules</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        "<h1>Bubble ratios of fused schedules</h1>\n"
        "<p>An actor and a critic cross the same ranks in opposite directions. "
        f"{html.escape(costs[0].upper() + costs[1:])}.{html.escape(note)} Bold: the shortest within the cap. "
        "Bubble ratio: 1 - work / (ranks x makespan); peak memory in multiples of serial 1F1B's.</p>\n"
        f"<code>{html.escape(command_of(grid, limits=limits))} --out FOLDER</code>\n{sections}</body></html>\n"
    )


def _draw_limits(bubbles: Any, memory: Any, points: Sequence[Point], *, cap: float | None) -> None:
    least: dict[int, float] = {}
    for point in points:
        least[point.microbatches] = max(least.get(point.microbatches, 0.0), point.least_bubble_ratio)
    bubbles.plot(*zip(*sorted(least.items()), strict=True), color="0.4", linestyle=":", label="lower bound")
    if cap is not None:
        memory.axhline(cap, color="crimson", linestyle="--", linewidth=1, label="memory cap")


def _label_microbatches(axes: Any, counts: list[int]) -> None:
    axes.set(xlabel="micro-batches of each model")
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts if len(counts) <= 10 else counts[:: -(-len(counts) // 10)])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.grid(linewidth=0.4, alpha=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _section(points: Sequence[Point], image: bytes, *, cap: float | None) -> str:
    """One depth: its chart and its table."""
    depth = points[0].depth
    heads = ("micro-batches", "method", "makespan", "lower bound", "bubble ratio", "peak memory", "seconds")
    head = "".join('<th class="text">method</th>' if name == "method" else f"<th>{name}</th>" for name in heads)
    rows, last = [], None
    for point in points:
        alike = [p for p in points if p.microbatches == point.microbatches]
        rows.append(_row(point, alike, first=point.microbatches != last, cap=cap))
        last = point.microbatches
    source = base64.b64encode(image).decode()
    return (
        f'<h2>{depth} ranks</h2>\n<img alt="Bubble ratio and peak memory on {depth} ranks" '
        f'src="data:image/png;base64,{source}">\n<div class="wide" tabindex="0" role="region" '
        f'aria-label="Table of {depth} ranks"><table>\n<tr>{head}</tr>\n{"".join(rows)}</table></div>\n'
    )


def _is_over(point: Point, cap: float | None) -> bool:
    return cap is not None and point.peak_memory > cap * (1 + 1e-4)  # peaks are rounded to four digits


def _row(point: Point, alike: Sequence[Point], *, first: bool, cap: float | None) -> str:
    over = _is_over(point, cap)
    best = not over and point.makespan == min(p.makespan for p in alike if not _is_over(p, cap))
    cells = (
        (str(point.microbatches), ""),
        (html.escape(point.method), "text"),
        (f"{point.makespan:g}", "best" if best else ""),
        (f"{point.lower_bound:g}", ""),
        (f"{point.bubble_ratio:.2%}", "best" if best else ""),
        (f"{point.peak_memory:.2f} x", "over" if over else ""),
        (f"{point.seconds:.2f}", ""),
    )
    opening = '<tr class="first">' if first else "<tr>"
    body = "".join(f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>" for text, kind in cells)
    return f"{opening}{body}</tr>\n"

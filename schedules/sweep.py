"""Sweep: bubble ratios over depths, micro-batches and methods, as a CSV, a chart per depth and one HTML page.

The problems are an actor and a critic in opposite directions on the same ranks, backward twice forward:

    actor  forward f_a, activation 1;  critic  forward f_c, activation f_c / f_a
"""

import base64
import csv
import html
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from schedules.builders import serial_1f1b
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.limits import Limits
from schedules.solve import solve


@dataclass(frozen=True)
class Grid:
    """What to sweep. `cap` is in multiples of serial 1F1B's peak memory; None sets no cap."""

    depths: Sequence[int]
    microbatches: Sequence[int]
    methods: Sequence[str]
    actor_forward: float = 5.0
    critic_forward: float = 2.0
    comm: float = 0.0
    cap: float | None = None


@dataclass(frozen=True)
class Point:
    """One solved problem. `peak_memory` is in multiples of serial 1F1B's."""

    depth: int
    microbatches: int
    method: str
    makespan: float
    lower_bound: float
    bubble_ratio: float
    peak_memory: float
    seconds: float


def problem_of(grid: Grid, *, depth: int, microbatches: int) -> Problem:
    """Actor and critic in opposite directions on `depth` ranks."""
    ranks = list(range(depth))
    costs = {"actor": (grid.actor_forward, ranks), "critic": (grid.critic_forward, ranks[::-1])}
    models = tuple(
        Model(name, placement, microbatches, forward, 2 * forward, activation=forward / grid.actor_forward)
        for name, (forward, placement) in costs.items()
    )
    return Problem(depth, models, comm=grid.comm)


def sweep(grid: Grid, *, limits: Limits) -> Iterator[Point]:
    """Solve every point; the limits are for each. Methods that look at no cap run without one (the peak is told)."""
    for depth in grid.depths:
        for microbatches in grid.microbatches:
            free = problem_of(grid, depth=depth, microbatches=microbatches)
            serial = replay(free, serial_1f1b(free)).max_peak_memory
            for method in grid.methods:
                looks_at_cap = method not in ("serial", "gpipe", "overlay")
                problem = free.with_cap(serial * grid.cap) if grid.cap and looks_at_cap else free
                solved = solve(problem, method=method, limits=limits)
                result, bound = solved.replay, solved.lower_bound
                peak = round(result.max_peak_memory / serial, 4)
                numbers = (result.makespan, bound, round(result.bubble_ratio, 6), peak, round(solved.seconds, 3))
                yield Point(depth, microbatches, method, *numbers)


def write(points: Sequence[Point], folder: Path, *, grid: Grid) -> None:
    """sweep.csv, one PNG per depth, and index.html, which holds all of it and opens without a network."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "sweep.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Point)])
        writer.writeheader()
        writer.writerows(asdict(point) for point in points)
    charts = {depth: folder / f"depth{depth}.png" for depth in grid.depths}
    for depth, path in charts.items():
        _draw([point for point in points if point.depth == depth], path, title=f"{depth} ranks; {_costs(grid)}")
    (folder / "index.html").write_text(_page(points, charts, grid), encoding="utf-8")


def _draw(points: Sequence[Point], path: Path, *, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for method in dict.fromkeys(point.method for point in points):
        line = [(p.microbatches, p.bubble_ratio) for p in points if p.method == method]
        axes.plot(*zip(*line, strict=True), marker="o", label=method)
    axes.set(xlabel="micro-batches of each model", ylabel="bubble ratio", ylim=(0, None))
    axes.set_title(title, fontsize=8)
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _costs(grid: Grid) -> str:
    cap = "none" if grid.cap is None else f"{grid.cap:g} x serial 1F1B's peak"
    forwards = f"forward {grid.actor_forward:g} (actor), {grid.critic_forward:g} (critic), backward twice"
    return f"{forwards}, comm {grid.comm:g}, memory cap {cap}"


def _page(points: Sequence[Point], charts: dict[int, Path], grid: Grid) -> str:
    images = "".join(
        f'<img alt="{depth} ranks" src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">\n'
        for depth, path in charts.items()
    )
    names = [field.name for field in fields(Point)]
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in asdict(point).values()) + "</tr>\n"
        for point in points
    )
    style = "body{font-family:sans-serif}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:2px 8px}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Bubble ratios</title><style>{style}</style>\n'
        f"<h1>Bubble ratios</h1><p>{html.escape(_costs(grid))}</p>\n{images}"
        f"<table><tr>{head}</tr>\n{body}</table></html>\n"
    )

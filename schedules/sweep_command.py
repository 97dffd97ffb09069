"""The command `sweep`: solve a grid of problems and write what came of it.

python -m schedules sweep   --out FOLDER | --html FILE.html [--depths P ...] [--microbatches M ...]
                                    [--methods METHOD ...] [--actor F] [--critic F] [--comm T] [--cap X]
                                    [--time-limit S] [--steps N] [--workers N] [--seed N]
"""

import argparse
import time

from schedules.arguments import Parser, above_zero, add_limits, new_file, new_folder, whole
from schedules.forms import LARGEST
from schedules.problem import MOST_OPS, MOST_RANKS, ProblemError
from schedules.search.limits import Limits
from schedules.solve import GENERAL
from schedules.sweep import Grid, Point, number_of_points, sweep
from schedules.sweep_page import chart, depths_of, of_depth, page, write

PURPOSE = "bubble ratios over depths, micro-batches and methods: CSV, charts and a page"


def add_sweep(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add the command to the command line's."""
    command = commands.add_parser("sweep", help=PURPOSE, description=PURPOSE)
    command.set_defaults(run=_run)
    size, ranks = whole(1, MOST_OPS), whole(1, MOST_RANKS)
    command.add_argument("--depths", type=ranks, nargs="+", default=[4, 8], metavar="P", help="ranks (4 8)")
    command.add_argument("--microbatches", type=size, nargs="+", default=[4, 8, 16], metavar="M", help="(4 8 16)")
    command.add_argument("--methods", choices=GENERAL, nargs="+", default=["serial", "overlay", "greedy"])
    duration = above_zero(LARGEST)
    command.add_argument("--actor", type=duration, default=5.0, metavar="F", help="forward time of an actor stage (5)")
    command.add_argument("--critic", type=duration, default=2.0, metavar="F", help="of a critic stage (2)")
    command.add_argument("--comm", type=float, default=0.0, metavar="T", help="time of a message (0)")
    command.add_argument("--cap", type=duration, metavar="X", help="memory cap in multiples of serial 1F1B's peak")
    command.add_argument("--out", type=new_folder, metavar="FOLDER", help="for sweep.csv, depth*.png and index.html")
    command.add_argument("--html", type=new_file, metavar="FILE.html", help="for the page alone, with all in it")
    add_limits(command)


def _run(args: argparse.Namespace) -> int:
    if args.out is None and args.html is None:
        raise ProblemError("sweep: name --out FOLDER, --html FILE.html or both; there is no place for the result")
    grid = Grid(args.depths, args.microbatches, args.methods, args.actor, args.critic, args.comm, args.cap)
    limits = Limits(args.time_limit, args.steps, args.workers, args.seed)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
    points: list[Point] = []
    total, began = number_of_points(grid), time.monotonic()
    try:
        for point in sweep(grid, limits=limits):
            points.append(point)
            print(f"{_counted(len(points), total, time.monotonic() - began)}  {_line(point)}", flush=True)
    finally:  # stopped or failed half-way: what is solved is worth keeping
        if points:
            _write(points, args, grid, limits)
    return 0


def _counted(done: int, total: int, seconds: float) -> str:
    """How many, and the time left at the pace so far."""
    left = round(seconds / done * (total - done))
    return f"{done:{len(str(total))}d}/{total} {left // 60}m{left % 60:02d}s left"


def _line(point: Point) -> str:
    size = f"{point.depth:>3} ranks {point.microbatches:>4} micro-batches"
    return f"{size} {point.method:<8} bubble ratio {point.bubble_ratio:.2%}, peak {point.peak_memory:.2f} x"


def _write(points: list[Point], args: argparse.Namespace, grid: Grid, limits: Limits) -> None:
    if args.out is not None:
        write(points, args.out, grid=grid, limits=limits)
    if args.html is not None:
        charts = {depth: chart(of_depth(points, depth), grid=grid) for depth in depths_of(points)}
        args.html.write_text(page(points, charts, grid=grid, limits=limits), encoding="utf-8")

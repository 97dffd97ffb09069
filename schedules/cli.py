"""The command line: solve, replay, bounds, draw, sweep, problem; found and keep (found/commands.py).

    python -m schedules solve   PROBLEM [--method M] [--time-limit S] [--steps N] [--workers N] [--seed N]
                                        [--memory-cap X] [--placement line|v|interleaved|auto] [--jitter J] [--apart]
                                        [--start ORDER.csv] [--out ORDER.csv] [--out-problem FILE.yaml]
                                        [--keep NAME] [--json]
    python -m schedules replay  PROBLEM ORDER [--json]
    python -m schedules bounds  PROBLEM [--json]
    python -m schedules draw    PROBLEM ORDER [--out FILE.{svg,png,json}] [--memory-cap X]
    python -m schedules sweep   --out FOLDER | --html FILE.html [--depths P ...] [--microbatches M ...]
                                        [--methods METHOD ...] [--cap X]
    python -m schedules problem --actor SHAPE --critic SHAPE --ranks N --microbatches M --out FILE.yaml [...]

Exit codes: 0 done; 1 the order is invalid; 2 the problem or the command is. Errors are one line on stderr.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from schedules.arguments import Parser, above_zero, add_limits, new_file
from schedules.bounds import lower_bound
from schedules.check import check
from schedules.draw.gantt import save_gantt
from schedules.draw.text import room_of, takes_color, text_grid
from schedules.draw.trace import save_trace
from schedules.ending import ending
from schedules.found.commands import add_commands, keep_solution
from schedules.found.keep import folder_of
from schedules.found.room import ROOM
from schedules.order import Order, OrderError
from schedules.order_file import load_order, save_order
from schedules.placement import SHAPES, place
from schedules.problem import Problem, ProblemError
from schedules.problem_file import save_problem
from schedules.replay import Replay
from schedules.search.limits import Limits
from schedules.solve import METHODS, SEARCHES, meets, solve, solve_placements, solve_robust
from schedules.sweep_command import add_sweep
from schedules.transformer import command as problem_command

_DRAWERS = {".svg": save_gantt, ".png": save_gantt, ".json": save_trace}


def main(argv: list[str] | None = None) -> int:
    """Run one command; give the exit code."""
    return ending(lambda: _run(argv))


def _run(argv: list[str] | None) -> int:
    args = _parser().parse_args(argv)
    return int(args.run(args))


def _solve(args: argparse.Namespace) -> int:
    problem = _problem(args)
    limits = Limits(args.time_limit, args.steps, args.workers, args.seed)
    _check_options(args)
    placed = place(problem, shape="line" if args.placement == "auto" else args.placement)
    if args.keep is not None:
        folder_of(placed, name=args.keep, room=ROOM)  # a name that will not do is told before the search
    start = load_order(args.start, problem=placed) if args.start is not None else None
    if args.placement == "auto":
        solution = solve_placements(problem, method=args.method, limits=limits)
    elif args.jitter:
        solution = solve_robust(placed, method=args.method, limits=limits, jitter=args.jitter)
    else:
        solution = solve(placed, method=args.method, limits=limits, start=start, apart=args.apart)
    if args.out:
        save_order(args.out, problem=solution.problem, order=solution.order)
    if args.out_problem:
        save_problem(args.out_problem, problem=solution.problem)
    if args.keep is not None:
        print(keep_solution(solution, name=args.keep, seed=args.seed, room=ROOM), file=sys.stderr)
    _print(args, facts(solution.replay, solution.lower_bound, method=solution.method, seconds=solution.seconds))
    if not args.json:
        _print_grid(solution.problem, solution.order, most_folds=1)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """Options of solve that do not go together."""
    started, everywhere = args.start is not None, args.placement == "auto"
    if started and (args.jitter or everywhere):
        raise ProblemError("--start: an order starts one search over one placement; drop --jitter or name a placement")
    if args.jitter and everywhere:
        raise ProblemError("--jitter: name one --placement; auto compares planned makespans only")
    if args.apart and (started or args.jitter or everywhere or args.method not in SEARCHES):
        raise ProblemError("--apart: one search over one placement; drop --start, --jitter, --placement auto, builders")


def _replay(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    problem, order = _problem_and_order(args)
    result = _checked(args, problem, order)
    _print(args, facts(result, lower_bound(problem), method="replay", seconds=time.perf_counter() - began))
    return 0


def _bounds(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    bound = lower_bound(_problem(args))
    _print(args, facts(None, bound, method="bounds", seconds=time.perf_counter() - began))
    return 0


def _draw(args: argparse.Namespace) -> int:
    problem, order = _problem_and_order(args)
    _checked(args, problem, order)
    if args.out is None:
        _print_grid(problem, order, most_folds=None)
    else:
        _DRAWERS[args.out.suffix.lower()](args.out, problem=problem, order=order)
    return 0


def _print_grid(problem: Problem, order: Order, *, most_folds: int | None) -> None:
    if sys.stdout is not None:  # closed by the shell's >&-
        room, color = room_of(sys.stdout), takes_color(sys.stdout)
        print(text_grid(problem, order, width=room, most_folds=most_folds, color=color), end="")


def facts(result: Replay | None, bound: float, *, method: str, seconds: float) -> dict[str, object]:
    """What --json prints. Without an order (bounds) what only an order has is null."""
    return {
        "makespan": result and result.makespan,
        "lower_bound": bound,
        "proved_optimal": result and meets(result.makespan, bound),
        "bubble_ratio": result and result.bubble_ratio,
        "max_peak_memory": result and result.max_peak_memory,
        "peak_memory": result and list(result.peak_memory),
        "method": method,
        "seconds": round(seconds, 6),
    }


def _print(args: argparse.Namespace, values: dict[str, object]) -> None:
    if args.json:
        print(json.dumps(values))
        return
    for key, value in values.items():
        if value is not None:
            print(f"{key:<16} {value:.6g}" if isinstance(value, float) else f"{key:<16} {value}")


def _problem(args: argparse.Namespace) -> Problem:
    problem = Problem.load(args.problem)
    cap = getattr(args, "memory_cap", None)
    return problem if cap is None else problem.with_cap(cap)


def _problem_and_order(args: argparse.Namespace) -> tuple[Problem, Order]:
    problem = _problem(args)
    return problem, load_order(args.order, problem=problem)


def _checked(args: argparse.Namespace, problem: Problem, order: Order) -> Replay:
    try:
        return check(problem, order)
    except OrderError as error:
        raise OrderError(f"{args.order}: {error}") from None


def _parser() -> Parser:
    parser = Parser(prog="python -m schedules", description="Orders of fused pipeline work.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    solving = _command(commands, "solve", _solve, "find an order")
    solving.add_argument("--method", choices=METHODS, default="auto")
    add_limits(solving)
    solving.add_argument("--memory-cap", type=float, metavar="X", help="in place of the problem's own")
    solving.add_argument("--placement", choices=(*SHAPES, "auto"), default="line", help="other than the problem's own")
    solving.add_argument(
        "--jitter", type=above_zero(1.0), metavar="J", help="choose for durations that vary by J, as 0.1"
    )
    solving.add_argument("--out", type=new_file, metavar="ORDER.csv")
    solving.add_argument("--out-problem", type=new_file, metavar="FILE.yaml", help="the problem as placed, for replay")
    solving.add_argument("--start", metavar="ORDER", help="an order to start the search from, in greedy's place")
    solving.add_argument("--apart", action="store_true", help="models one after the other on every rank, no barrier")
    solving.add_argument("--keep", metavar="NAME", help="keep the order in found/ where it is the best so far")
    replaying = _command(commands, "replay", _replay, "check an order and say what it amounts to")
    replaying.add_argument("order", metavar="ORDER")
    bounding = _command(commands, "bounds", _bounds, "the lower bound on any order's makespan")
    for command in (solving, replaying, bounding):
        command.add_argument("--json", action="store_true", help="print one JSON object")
    drawing = _command(commands, "draw", _draw, "draw an order; as a text grid without --out")
    add_sweep(commands)
    purpose = problem_command.PURPOSE
    problem_command.add_arguments(commands.add_parser("problem", help=purpose, description=purpose))
    add_commands(commands)
    drawing.add_argument("order", metavar="ORDER")
    drawing.add_argument("--out", type=_drawing, metavar="FILE.{svg,png,json}")
    drawing.add_argument("--memory-cap", type=float, metavar="X", help="in place of the problem's own")
    return parser


def _command(commands: "argparse._SubParsersAction[Parser]", name: str, run: object, purpose: str) -> Parser:
    command = commands.add_parser(name, help=purpose, description=purpose)
    command.add_argument("problem", metavar="PROBLEM", help="problem YAML")
    command.set_defaults(run=run)
    return command


def _drawing(text: str) -> Path:
    if Path(text).suffix.lower() not in _DRAWERS:
        raise argparse.ArgumentTypeError(f"{text}: expected a name that ends in .svg, .png or .json")
    return new_file(text)

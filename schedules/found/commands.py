"""The commands of the command line that look the kept orders up and add to them: found, keep.

python -m schedules found [--verify] [--json]
python -m schedules keep  PROBLEM ORDER --method M --seed N [--seconds S] [--memory-cap X] [--name NAME]
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from schedules.arguments import Parser, above_zero, whole
from schedules.found.keep import keep
from schedules.found.room import ROOM, Kept, load_all
from schedules.found.verify import bound_of, verify
from schedules.order_file import load_order
from schedules.problem import Problem
from schedules.solve import METHODS, Solution, meets

_COLUMNS = (
    "name",
    "memory_cap",
    "makespan",
    "lower_bound",
    "proved_optimal",
    "peak_memory",
    "method",
    "seed",
    "seconds",
)


def add_commands(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add both commands to the command line's."""
    purpose = "list the best orders found so far"
    listing = commands.add_parser("found", help=purpose, description=purpose)
    listing.add_argument("--verify", action="store_true", help="replay every order first, and refuse a false record")
    listing.add_argument("--json", action="store_true", help="print one JSON list")
    listing.set_defaults(run=_found)
    purpose = "keep an order where it is the best for its problem and memory cap"
    keeping = commands.add_parser("keep", help=purpose, description=purpose)
    keeping.add_argument("problem", metavar="PROBLEM", help="problem YAML")
    keeping.add_argument("order", metavar="ORDER")
    keeping.add_argument("--method", choices=METHODS, required=True, help="that found it")
    keeping.add_argument("--seed", type=whole(0, 10**9), required=True, metavar="N", help="that it was found with")
    keeping.add_argument("--seconds", type=above_zero(1e9), default=0.0, metavar="S", help="that it took")
    keeping.add_argument("--memory-cap", type=float, metavar="X", help="in place of the problem's own")
    keeping.add_argument("--name", metavar="NAME", help="of a problem not kept so far (the problem file's)")
    keeping.set_defaults(run=_keep)
    for command in (listing, keeping):
        command.add_argument("--room", type=Path, default=ROOM, metavar="FOLDER", help="other than the package's own")


def keep_solution(solution: Solution, *, name: str, seed: int, room: Path) -> str:
    """Keep what a search found, with the bound it proved, and say in a line what came of it."""
    kept = keep(
        solution.problem,
        solution.order,
        name=name,
        method=solution.method,
        seed=seed,
        seconds=solution.seconds,
        proved_bound=solution.lower_bound,
        room=room,
    )
    return _said(kept)


def facts_of(kept: Kept) -> dict[str, object]:
    """One line of the list: the record, the problem's name, digest and ranks, and whose the bound is."""
    bound, origin = bound_of(kept)
    head = {"name": kept.name, "problem": kept.problem.digest, "ranks": kept.problem.ranks}
    proved = meets(kept.record.makespan, bound)
    return head | asdict(kept.record) | {"lower_bound": bound, "proved_optimal": proved, "bound_from": origin}


def _found(args: argparse.Namespace) -> int:
    everything = load_all(args.room)
    if args.verify:
        for kept in everything:
            verify(kept)
    listed = [facts_of(kept) for kept in everything]
    if args.json:
        print(json.dumps(listed))
        return 0
    rows = [_COLUMNS, *(tuple(_shown(facts[column]) for column in _COLUMNS) for facts in listed)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _keep(args: argparse.Namespace) -> int:
    problem = Problem.load(args.problem)
    problem = problem if args.memory_cap is None else problem.with_cap(args.memory_cap)
    order = load_order(args.order, problem=problem)
    kept = keep(
        problem,
        order,
        name=args.name or Path(args.problem).stem,
        method=args.method,
        seed=args.seed,
        seconds=args.seconds,
        room=args.room,
    )
    print(_said(kept))
    return 0


def _said(kept: Kept | None) -> str:
    if kept is None:
        return "not kept: an order at least as good is there"
    return f"kept {kept.name}/{kept.path.name}: makespan {kept.record.makespan:g}, peak {kept.record.peak_memory:g}"


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""The command line of the tables.

    python -m schedules.bench TABLE --out FILE.jsonl [--only ROW ...] [--method M] [--time-limit S] [--steps N]
                                    [--workers N] [--seed N] [--jobs N] [--keep [FOLDER]]
    python -m schedules.bench report FILE.jsonl [...]

TABLE: published, front, split, baselines, speed. Rows that FILE has under the same settings are not run again.
"""

import argparse
import sys
from pathlib import Path

from schedules.arguments import Parser, above_zero, new_file, new_folder, whole
from schedules.bench.report import report
from schedules.bench.runner import run_table
from schedules.bench.table import RowError, Settings
from schedules.bench.tables import TABLES
from schedules.ending import ending, fail
from schedules.found.room import ROOM
from schedules.solve import GENERAL

_CORES = 2  # of the machine of docs/results.md


def main(argv: list[str] | None = None) -> int:
    """Run one command; give the exit code."""
    return ending(lambda: _command(argv))


def _command(argv: list[str] | None) -> int:
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except RowError as error:
        return fail(str(error), code=2)


def _run(args: argparse.Namespace) -> int:
    limit = TABLES[args.table].time_limit if args.time_limit is None else args.time_limit
    workers = max(1, _CORES // args.jobs) if args.workers is None else args.workers
    settings = Settings(args.method, limit, args.steps, workers, args.seed)
    for line in run_table(args.table, out=args.out, settings=settings, only=args.only, jobs=args.jobs, room=args.keep):
        print(line, flush=True)
    return 0


def _report(args: argparse.Namespace) -> int:
    print(report(args.files), end="")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="python -m schedules.bench", description="The tables of docs/results.md.")
    commands = parser.add_subparsers(required=True, metavar="TABLE", dest="table")
    for name, table in TABLES.items():
        _add_table(commands.add_parser(name, help=f"{len(table.keys)} rows, {table.time_limit:g} s each"))
    reporting = commands.add_parser("report", help="print tables as Markdown")
    reporting.add_argument("files", type=Path, nargs="+", metavar="FILE.jsonl")
    reporting.set_defaults(run=_report)
    return parser


def _add_table(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_run)
    command.add_argument("--out", type=new_file, required=True, metavar="FILE.jsonl")
    command.add_argument("--only", nargs="+", default=(), metavar="ROW", help="rows, or the problems they begin with")
    command.add_argument("--method", choices=GENERAL, default="auto", help="of the searched orders (auto)")
    command.add_argument("--time-limit", type=above_zero(1e9), metavar="S", help="seconds a row (the table's own)")
    command.add_argument("--steps", type=whole(0, 10**15), metavar="N", help="search steps, in place of time")
    command.add_argument("--workers", type=whole(1, 1024), metavar="N", help="threads a row (2 over --jobs)")
    command.add_argument("--seed", type=whole(0, 10**9), default=0, metavar="N")
    command.add_argument("--jobs", type=whole(1, 64), default=1, metavar="N", help="rows side by side (1)")
    command.add_argument(
        "--keep", type=new_folder, nargs="?", const=ROOM, metavar="FOLDER", help="keep orders in found/"
    )


if __name__ == "__main__":
    sys.exit(main())

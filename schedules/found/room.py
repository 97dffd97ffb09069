"""The room of kept orders: one folder a problem, one order file a memory cap."""

import re
from dataclasses import dataclass
from pathlib import Path

from schedules.order import Order, OrderError
from schedules.order_file import load_order, load_record
from schedules.problem import Problem, ProblemError
from schedules.record import Record

ROOM = Path(__file__).with_name("orders")
PROBLEM_FILE = "problem.yaml"


@dataclass(frozen=True)
class Kept:
    """One kept order. `problem` has the memory cap of the record."""

    name: str
    path: Path
    problem: Problem
    order: Order
    record: Record


def order_files(room: Path = ROOM) -> list[Path]:
    """All order files, those of a problem together, exp9 before exp10."""
    return sorted(room.glob("*/*.csv"), key=lambda path: (_natural(path.parent.name), _natural(path.stem)))


def load(path: Path) -> Kept:
    """Read one order file and the problem beside it. Errors are one line that begins with the file."""
    problem = Problem.load(path.with_name(PROBLEM_FILE))
    record = load_record(path)
    if record is None:
        raise OrderError(
            f"{path}: line 2: a kept order says what it amounts to; write it by `python -m schedules keep`"
        )
    capped = problem.with_cap(record.memory_cap)
    return Kept(path.parent.name, path, capped, load_order(path, problem=capped), record)


def load_all(room: Path = ROOM) -> list[Kept]:
    """All kept orders, as read; verify.py says whether what they claim is true. A room must be a folder."""
    if not room.is_dir():
        raise ProblemError(f"{room}: {'not a folder' if room.exists() else 'there is no such folder'}")
    return [load(path) for path in order_files(room)]


def file_name(cap: float | None) -> str:
    """The file of a problem's best order within a memory cap."""
    return "free.csv" if cap is None else f"cap{cap:.12g}.csv"


def _natural(name: str) -> list[tuple[str, int]]:
    """A key that sorts the numbers in names by value."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]

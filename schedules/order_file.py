"""Order files: CSV, one line a rank, under a header that names the problem and counts the ops.

    # fusedrl order, problem 3f2a9c0d11e4b8a7, 8 ranks, 1024 ops
    # makespan 613, ...                                             optional: what the order amounts to (record.py)
    0,actor:F0,critic:F0,actor:F1,...
    1,...

The digest refuses an order made for other work; the counts refuse a file that was cut short.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from schedules.forms import shown
from schedules.order import Order, OrderError, order_of, tokens_of
from schedules.problem import Problem
from schedules.record import Record, from_line, to_line

T = TypeVar("T")
_HEADER = re.compile(
    r"# fusedrl order, problem (?P<digest>[0-9a-f]{1,64}), (?P<ranks>\d{1,9}) ranks, (?P<ops>\d{1,12}) ops"
)


def to_csv(problem: Problem, order: Order, *, record: Record | None = None) -> str:
    """The order as the text of a CSV file, with a record of it where there is one."""
    rows = tokens_of(problem, order)
    header = f"# fusedrl order, problem {problem.digest}, {len(rows)} ranks, {sum(map(len, rows))} ops\n"
    said = "" if record is None else to_line(record) + "\n"
    return header + said + "".join(",".join([str(rank), *row]) + "\n" for rank, row in enumerate(rows))


def from_csv(problem: Problem, text: str) -> Order:
    """Read an order back. Raises OrderError for another problem's order and for a file that was cut short."""
    lines = text.splitlines()
    header = _HEADER.fullmatch(lines[0]) if lines else None
    if header is None:
        raise OrderError("line 1: no order header ('# fusedrl order, problem DIGEST, N ranks, N ops')")
    if header["digest"] != problem.digest:
        raise OrderError(f"line 1: the order was made for problem {header['digest']}, this problem is {problem.digest}")
    above = 1 if record_of(text) is None else 2  # lines above the rows
    rows = [_row(line, rank=rank, number=above + rank + 1) for rank, line in enumerate(lines[above:])]
    found = (len(rows), sum(map(len, rows)))
    if found != (int(header["ranks"]), int(header["ops"])):
        raise OrderError(
            f"the file was cut short or changed: its header counts {header['ranks']} ranks and {header['ops']} ops, "
            f"it holds {found[0]} ranks and {found[1]} ops"
        )
    return order_of(problem, rows)


def record_of(text: str) -> Record | None:
    """What the text says of its order; None where it says nothing. Raises OrderError for a line of another form."""
    line = "".join(text.splitlines()[1:2])
    return from_line(line) if line.startswith("#") else None


def save_order(path: str | Path, *, problem: Problem, order: Order, record: Record | None = None) -> None:
    """Write an order file."""
    Path(path).write_text(to_csv(problem, order, record=record), encoding="utf-8")


def load_order(path: str | Path, *, problem: Problem) -> Order:
    """Read an order file. Errors are one line: the file, then the place."""
    return _reading(path, lambda text: from_csv(problem, text))


def load_record(path: str | Path) -> Record | None:
    """Read what an order file says of its order; errors as those of load_order."""
    return _reading(path, record_of)


def _reading(path: str | Path, read: Callable[[str], T]) -> T:
    try:
        return read(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise OrderError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise OrderError(f"{path}: not a text file in UTF-8") from None
    except OrderError as error:
        raise OrderError(f"{path}: {error}") from None


def _row(line: str, *, rank: int, number: int) -> list[str]:
    first, *tokens = line.split(",")
    if first.strip() != str(rank):
        raise OrderError(f"line {number}: expected the row of rank {rank}, it begins with {shown(first)}")
    return [token.strip() for token in tokens]

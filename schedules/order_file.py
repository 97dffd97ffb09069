"""Order files: CSV, one line a rank, under a header that names the problem and counts the ops.

    # fusedrl order, problem 3f2a9c0d11e4b8a7, 8 ranks, 1024 ops
    0,actor:F0,critic:F0,actor:F1,...
    1,...

The digest refuses an order made for other work; the counts refuse a file that was cut short.
"""

import re
from pathlib import Path

from schedules.order import Order, OrderError, order_of, tokens_of
from schedules.problem import Problem

_HEADER = re.compile(r"# fusedrl order, problem (?P<digest>[0-9a-f]+), (?P<ranks>\d+) ranks, (?P<ops>\d+) ops")


def to_csv(problem: Problem, order: Order) -> str:
    """The order as the text of a CSV file."""
    rows = tokens_of(problem, order)
    header = f"# fusedrl order, problem {problem.digest}, {len(rows)} ranks, {sum(map(len, rows))} ops\n"
    return header + "".join(",".join([str(rank), *row]) + "\n" for rank, row in enumerate(rows))


def from_csv(problem: Problem, text: str) -> Order:
    """Read an order back. Raises OrderError for another problem's order and for a file that was cut short."""
    lines = text.splitlines()
    header = _HEADER.fullmatch(lines[0]) if lines else None
    if header is None:
        raise OrderError("line 1: no order header ('# fusedrl order, problem DIGEST, N ranks, N ops')")
    if header["digest"] != problem.digest:
        raise OrderError(f"line 1: the order was made for problem {header['digest']}, this problem is {problem.digest}")
    rows = [_row(line, rank=rank) for rank, line in enumerate(lines[1:])]
    found = (len(rows), sum(map(len, rows)))
    if found != (int(header["ranks"]), int(header["ops"])):
        raise OrderError(
            f"the file was cut short or changed: its header counts {header['ranks']} ranks and {header['ops']} ops, "
            f"it holds {found[0]} ranks and {found[1]} ops"
        )
    return order_of(problem, rows)


def save_order(path: str | Path, *, problem: Problem, order: Order) -> None:
    """Write an order file."""
    Path(path).write_text(to_csv(problem, order), encoding="utf-8")


def load_order(path: str | Path, *, problem: Problem) -> Order:
    """Read an order file. Errors are one line: the file, then the place."""
    try:
        return from_csv(problem, Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise OrderError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise OrderError(f"{path}: not a text file") from None
    except OrderError as error:
        raise OrderError(f"{path}: {error}") from None


def _row(line: str, *, rank: int) -> list[str]:
    first, *tokens = line.split(",")
    if first.strip() != str(rank):
        raise OrderError(f"line {rank + 2}: expected the row of rank {rank}, it begins with {first!r}")
    return [token.strip() for token in tokens]

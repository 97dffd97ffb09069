"""Keep an order where it is the best for its problem and memory cap."""

import re
from dataclasses import replace
from pathlib import Path

from schedules.bounds import lower_bound
from schedules.check import check
from schedules.found.room import PROBLEM_FILE, ROOM, Kept, file_name, load
from schedules.order import Order, OrderError
from schedules.order_file import save_order
from schedules.problem import Problem, ProblemError
from schedules.problem_file import save_problem
from schedules.record import Record
from schedules.solve import meets

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def keep(
    problem: Problem,
    order: Order,
    *,
    name: str,
    method: str,
    seed: int,
    seconds: float,
    proved_bound: float = 0.0,
    room: Path = ROOM,
) -> Kept | None:
    """Keep a checked order; None where one at least as good is there. A problem keeps the name it was first given.

    Better is shorter, then of less memory. Of two bounds on the same problem and cap the higher one stays.
    proved_bound: what a solver proved within the problem's memory cap. Raises OrderError for an invalid order.
    """
    cap = None if problem.memory_cap is None else _written(problem.memory_cap)
    problem = problem.with_cap(cap)
    result = check(problem, order)
    makespan, bound = _written(result.makespan), _written(max(proved_bound, lower_bound(problem)))
    peak, proved = _written(result.max_peak_memory), meets(makespan, bound)
    record = Record(makespan, bound, proved, peak, cap, method, seed, round(seconds, 3))
    folder = folder_of(problem, name=name, room=room)
    new = Kept(folder.name, folder / file_name(cap), problem, order, record)
    old = load(new.path) if new.path.exists() else None
    best = new if old is None else _better(old, new)
    if best == old:
        return None
    _write(best)
    return best


def _written(number: float) -> float:
    """The number as a record holds it, so that what is read back compares equal."""
    return float(f"{number:.12g}")


def _better(old: Kept, new: Kept) -> Kept:
    """The better order under the higher bound; the old one where they are equal."""
    best = min((old, new), key=lambda kept: (kept.record.makespan, kept.record.peak_memory))
    bound = max(old.record.lower_bound, new.record.lower_bound)
    if not best.record.makespan >= bound * (1 - 1e-9):
        told = f"makespan {old.record.makespan:g}, lower bound {old.record.lower_bound:g}"
        raise OrderError(f"{old.path}: its record ({told}) contradicts the order to keep; remove the file")
    proved = meets(best.record.makespan, bound)
    return replace(best, record=replace(best.record, lower_bound=bound, proved_optimal=proved))


def folder_of(problem: Problem, *, name: str, room: Path) -> Path:
    """Where the problem is, or is to be, kept. ProblemError where the name or the room will not do."""
    if not _NAME.fullmatch(name):
        raise ProblemError(f"name {name!r}: expected letters, digits, '_', '.' or '-', a letter or digit first")
    if room.exists() and not room.is_dir():
        raise ProblemError(f"{room} is not a folder; name one, new or not, to keep orders in")
    digests = {path.parent: Problem.load(path).digest for path in sorted(room.glob(f"*/{PROBLEM_FILE}"))}
    for folder, digest in digests.items():
        if digest == problem.digest:
            return folder
    if (there := digests.get(room / name)) is not None:
        raise ProblemError(f"name {name!r}: problem {there} is kept by it, this one is {problem.digest}; give another")
    return room / name


def _write(kept: Kept) -> None:
    kept.path.parent.mkdir(parents=True, exist_ok=True)
    problem_file = kept.path.with_name(PROBLEM_FILE)
    if not problem_file.exists():
        save_problem(problem_file, problem=kept.problem.with_cap(None))
    part = kept.path.with_suffix(".part")
    save_order(part, problem=kept.problem, order=kept.order, record=kept.record)
    part.replace(kept.path)  # whole or not at all

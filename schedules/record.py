"""What an order file may say of its order, in one line below its header. Nothing is believed: found/verify.py replays.

# makespan 613, lower bound 606, proved no, peak memory 38.72, memory cap none, method auto, seed 0, seconds 41.5
"""

import re
from dataclasses import dataclass

from schedules.order import OrderError

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_LINE = re.compile(
    rf"# makespan (?P<makespan>{_NUMBER}), lower bound (?P<lower_bound>{_NUMBER}), proved (?P<proved>yes|no), "
    rf"peak memory (?P<peak>{_NUMBER}), memory cap (?P<cap>none|{_NUMBER}), "
    rf"method (?P<method>[a-z0-9-]+), seed (?P<seed>\d{{1,18}}), seconds (?P<seconds>{_NUMBER})"
)


@dataclass(frozen=True)
class Record:
    """What an order amounts to, and how it was found. `lower_bound` holds within `memory_cap` (None: without one)."""

    makespan: float
    lower_bound: float
    proved_optimal: bool
    peak_memory: float
    memory_cap: float | None
    method: str
    seed: int
    seconds: float


def to_line(record: Record) -> str:
    """The record as its line of an order file, numbers to 12 digits."""
    proved = "yes" if record.proved_optimal else "no"
    cap = "none" if record.memory_cap is None else f"{record.memory_cap:.12g}"
    return (
        f"# makespan {record.makespan:.12g}, lower bound {record.lower_bound:.12g}, proved {proved}, "
        f"peak memory {record.peak_memory:.12g}, memory cap {cap}, "
        f"method {record.method}, seed {record.seed}, seconds {record.seconds:.12g}"
    )


def from_line(line: str) -> Record:
    """Read the line back. Raises OrderError for any other form."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise OrderError(f"line 2: not a record of an order; expected it as '{to_line(_EXAMPLE)}'")
    return Record(
        makespan=float(match["makespan"]),
        lower_bound=float(match["lower_bound"]),
        proved_optimal=match["proved"] == "yes",
        peak_memory=float(match["peak"]),
        memory_cap=None if match["cap"] == "none" else float(match["cap"]),
        method=match["method"],
        seed=int(match["seed"]),
        seconds=float(match["seconds"]),
    )


_EXAMPLE = Record(613, 606, False, 38.72, None, "auto", 0, 41.5)

"""Table `published`: all 12 published problems without a memory cap, beside the authors' own search."""

from collections.abc import Mapping
from typing import Any

from schedules.bench.markdown import percent, table
from schedules.bench.problems import PUBLISHED, published, serial_peak
from schedules.bench.table import Outcome, Rows, Settings, Table, facts_of
from schedules.solve import solve


def run(key: str, settings: Settings) -> Outcome:
    """Solve one problem."""
    problem = published(key)
    solution = solve(problem, method=settings.method, limits=settings.limits)
    return Outcome(facts_of(solution) | {"serial_peak": serial_peak(problem)}, solution, key)


def report(rows: Rows) -> str:
    """Makespan, bound, peak and seconds beside the published ones."""
    head = (
        "problem",
        "makespan",
        "published",
        "lower bound",
        "proved",
        "bubble",
        "peak",
        "published",
        "serial 1F1B",
        "seconds",
        "published",
    )
    return table(head, [_line(key, facts) for key, facts in rows.items()])


def _line(key: str, facts: Mapping[str, Any]) -> tuple[Any, ...]:
    known = PUBLISHED[key]
    return (
        key,
        facts["makespan"],
        known.makespan,
        facts["lower_bound"],
        facts["proved_optimal"],
        percent(facts["bubble_ratio"]),
        facts["peak"],
        known.peak,
        facts["serial_peak"],
        round(facts["seconds"], 1),
        known.seconds,
    )


TABLE = Table(tuple(PUBLISHED), run, report, time_limit=60)

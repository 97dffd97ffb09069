"""Table `split`: backwards split into equal halves (W = F), within serial 1F1B's peak memory, for all 12 problems."""

from collections.abc import Mapping
from typing import Any

from schedules.bench.markdown import percent, table
from schedules.bench.problems import PUBLISHED, capped, published, split
from schedules.bench.table import Outcome, Rows, Settings, Table, facts_of
from schedules.solve import solve

AIM = {"exp1": 348, "exp4": 352, "exp5": 187, "exp11": 162}


def run(key: str, settings: Settings) -> Outcome:
    """Solve one problem."""
    problem = split(capped(published(key), ratio=1.0))
    solution = solve(problem, method=settings.method, limits=settings.limits)
    return Outcome(facts_of(solution) | {"memory_cap": problem.memory_cap}, solution, f"{key}-split")


def report(rows: Rows) -> str:
    """Makespan, and how far above the bound it is at the most."""
    head = ("problem", "makespan", "lower bound", "gap", "aim", "bubble", "peak", "cap", "seconds")
    return table(head, [_line(key, facts) for key, facts in rows.items()])


def _line(key: str, facts: Mapping[str, Any]) -> tuple[Any, ...]:
    gap = percent(facts["makespan"] / facts["lower_bound"] - 1)
    bubble = percent(facts["bubble_ratio"])
    peak, cap, seconds = facts["peak"], facts["memory_cap"], round(facts["seconds"], 1)
    return key, facts["makespan"], facts["lower_bound"], gap, AIM.get(key), bubble, peak, cap, seconds


TABLE = Table(tuple(PUBLISHED), run, report, time_limit=30)

"""Table `front`: time against memory. All 12 problems at three memory caps, in multiples of serial 1F1B's peak."""

from collections.abc import Mapping
from typing import Any

from schedules.bench.markdown import table
from schedules.bench.problems import PUBLISHED, capped, published
from schedules.bench.table import Outcome, Rows, Settings, Table, facts_of
from schedules.solve import solve

RATIOS = ("1.00", "1.10", "1.25")


def run(key: str, settings: Settings) -> Outcome:
    """Solve one problem within one cap; the key is `exp0 cap 1.00`."""
    name, _, ratio = key.split()
    problem = capped(published(name), ratio=float(ratio))
    solution = solve(problem, method=settings.method, limits=settings.limits)
    return Outcome(facts_of(solution) | {"memory_cap": problem.memory_cap}, solution, name)


def report(rows: Rows) -> str:
    """A line a problem: the makespan at each cap, `=` where it is proved, and the peak in brackets."""
    head = ("problem", "lower bound", *(f"cap {ratio}" for ratio in RATIOS))
    names = dict.fromkeys(key.split()[0] for key in rows)
    return table(head, [_line(name, rows) for name in names]) + "\n`=`: proved optimal. In brackets: peak memory.\n"


def _line(name: str, rows: Rows) -> list[Any]:
    found = [rows.get(f"{name} cap {ratio}") for ratio in RATIOS]
    bound = min(facts["lower_bound"] for facts in found if facts)  # a solver's may hold at its own cap alone
    return [name, bound, *(_cell(facts) for facts in found)]


def _cell(facts: Mapping[str, Any] | None) -> str | None:
    if facts is None:
        return None
    return f"{'=' if facts['proved_optimal'] else ''}{facts['makespan']:.6g} ({facts['peak']:.6g})"


TABLE = Table(tuple(f"{name} cap {ratio}" for name in PUBLISHED for ratio in RATIOS), run, report, time_limit=30)

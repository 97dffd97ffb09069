"""Table `baselines`: fused orders beside one model after the other, at equal memory and with communication.

The memory cap is serial 1F1B's peak at one stage a rank; a message takes a tenth of the critic's forward, and no less
where stages are cut into parts. Each baseline, one model after the other without a barrier, enters with the better of
two orders, its builder's closed form and a searched one, of those that keep the cap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from schedules.bench.markdown import cell, percent, table
from schedules.bench.problems import capped, crossed, published, split
from schedules.bench.table import Facts, Outcome, Rows, Settings, Table, facts_of
from schedules.bounds import lower_bound
from schedules.placement import place
from schedules.problem import Problem
from schedules.replay import Replay, replay
from schedules.solve import BUILDERS, solve

_CROSSED = {"p4m4": (4, 4), "p4m8": (4, 8), "p8m8": (8, 8), "p8m16": (8, 16)}  # ranks, micro-batches; costs of exp5
PROBLEMS = (*_CROSSED, "exp1", "exp2", "exp7", "exp8", "exp10", "exp11")
_COMM = 0.1  # of the critic's forward


@dataclass(frozen=True)
class Approach:
    """How a problem is laid out; `builder` is a baseline's closed form, None makes it a fused order."""

    splits: bool
    shape: str = "line"
    parts: int = 2
    builder: str | None = None


APPROACHES = {
    "fused": Approach(splits=False),
    "fused-split": Approach(splits=True),
    "fused-split-v": Approach(splits=True, shape="v"),
    "1f1b": Approach(splits=False, builder="serial"),
    "interleaved-2": Approach(splits=False, shape="interleaved", builder="interleaved"),
    "interleaved-4": Approach(splits=False, shape="interleaved", parts=4, builder="interleaved"),
    "zb-h1": Approach(splits=True, builder="zero-bubble"),
    "zb-v": Approach(splits=True, shape="v", builder="zero-bubble"),
}


def run(key: str, settings: Settings) -> Outcome:
    """One problem by one approach; the key is `exp1 zb-v`."""
    name, label = key.split()
    approach = APPROACHES[label]
    problem = problem_of(name, approach=approach)
    if approach.builder is not None:
        return Outcome(_baseline(problem, approach.builder, settings) | {"memory_cap": problem.memory_cap})
    solution = solve(problem, method=settings.method, limits=settings.limits)
    facts = facts_of(solution) | {"how": "searched", "memory_cap": problem.memory_cap}
    return Outcome(facts, solution, f"{name}-comm{label.removeprefix('fused')}")


def problem_of(name: str, *, approach: Approach) -> Problem:
    """The problem as an approach lays it out. The cap and the communication are those of one stage a rank."""
    base = _crossed(*_CROSSED[name]) if name in _CROSSED else published(name)
    comm = round(_COMM * base.models[-1].duration("F", 0, 0), 6)
    line = capped(replace(base, comm=comm), ratio=1.0)
    return place(split(line) if approach.splits else line, shape=approach.shape, parts=approach.parts)


def report(rows: Rows) -> str:
    """Bubble ratios, a line a problem and a column an approach, then every row with its numbers."""
    names = dict.fromkeys(key.split()[0] for key in rows)
    ratios = table(("problem", *APPROACHES), [_ratios(name, rows) for name in names])
    head = ("problem", "approach", "makespan", "lower bound", "bubble", "peak", "cap", "how", "closed form", "searched")
    return f"{ratios}\nIn bold: the least of the row.\n\n{table(head, [_line(*row) for row in rows.items()])}"


def _crossed(ranks: int, microbatches: int) -> Problem:
    return crossed(published("exp5"), ranks=ranks, microbatches=microbatches)


def _baseline(problem: Problem, builder: str, settings: Settings) -> Facts:
    closed = replay(problem, BUILDERS[builder](problem))
    searched = solve(problem, method=settings.method, limits=settings.limits, apart=True)
    tried = {"closed form": closed, "searched": searched.replay}
    fitting = [how for how, result in tried.items() if problem.fits(result.max_peak_memory)]
    how = min(fitting, key=lambda how: (tried[how].makespan, tried[how].max_peak_memory), default=None)
    best = tried.get(how) if how else None
    return {
        "makespan": best and best.makespan,
        "lower_bound": lower_bound(problem),
        "bubble_ratio": best and round(best.bubble_ratio, 6),
        "peak": best and best.max_peak_memory,
        "how": how,
        "closed": _tried(closed),
        "searched": _tried(searched.replay),
        "seconds": round(searched.seconds, 3),
    }


def _tried(result: Replay) -> Facts:
    return {"makespan": result.makespan, "peak": result.max_peak_memory}


def _ratios(name: str, rows: Rows) -> list[str | None]:
    found = [rows.get(f"{name} {label}") for label in APPROACHES]
    least = min((facts["bubble_ratio"] for facts in found if facts and facts["how"]), default=None)
    return [name, *(_ratio(facts, least) for facts in found)]


def _ratio(facts: Mapping[str, Any] | None, least: float | None) -> str | None:
    if facts is None:
        return None
    if facts["how"] is None:
        return f"does not fit (peak {cell(facts['closed']['peak'])})"
    shown = percent(facts["bubble_ratio"])
    return f"**{shown}**" if facts["bubble_ratio"] == least else shown


def _line(key: str, facts: Mapping[str, Any]) -> list[Any]:
    ratio = facts["bubble_ratio"]
    numbers = [facts["makespan"], facts["lower_bound"], None if ratio is None else percent(ratio), facts["peak"]]
    tried = [_attempt(facts.get(way), facts["memory_cap"]) for way in ("closed", "searched")]
    return [*key.split(), *numbers, facts["memory_cap"], facts["how"], *tried]


def _attempt(tried: Mapping[str, Any] | None, cap: float) -> str | None:
    """A baseline's order: its makespan, or that it does not fit and its peak."""
    if tried is None:
        return None
    fits = tried["peak"] <= cap * (1 + 1e-9)
    return cell(tried["makespan"]) + ("" if fits else f", does not fit (peak {cell(tried['peak'])})")


TABLE = Table(tuple(f"{name} {label}" for name in PROBLEMS for label in APPROACHES), run, report, time_limit=30)

"""Table `speed`: replays, neighbours of the search, and greedy's time to a first valid order; one core."""

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from schedules.bench.markdown import table
from schedules.bench.problems import PUBLISHED, published
from schedules.bench.table import Facts, Outcome, Rows, Settings, Table
from schedules.bounds import lower_bound
from schedules.builders import greedy, serial_1f1b
from schedules.problem import Problem
from schedules.replay import replay
from schedules.search.anneal import anneal_makespan
from schedules.search.limits import Limits
from schedules.search.tabu import Tabu

_TIMES = 5
ROUND = 50_000  # neighbours of a figure at the most: a round of the annealing
_SIZES = ("exp0", "exp9")  # where speeds are taken


def run(key: str, settings: Settings) -> Outcome:
    """One figure; the key is a problem and `replay`, `neighbours` (annealing), `moves` (tabu search) or `greedy`."""
    name, what = key.split()
    return Outcome(_MEASURES[what](published(name), settings))


def report(rows: Rows) -> str:
    """A line a figure."""
    head = ("problem", "what", "seconds (median of 5)", "a second", "ops a second")
    return table(head, [_line(key, facts) for key, facts in rows.items()])


def median_seconds(action: Callable[[], object], *, times: int = _TIMES) -> float:
    """The median time of an action."""
    return statistics.median(_seconds(action) for _ in range(times))


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _replay(problem: Problem, settings: Settings) -> Facts:
    order = greedy(problem)
    seconds = median_seconds(lambda: replay(problem, order))
    ops = sum(map(len, order.rows))
    return {"seconds": seconds, "per_second": 1 / seconds, "ops_per_second": ops / seconds}


def _neighbours(problem: Problem, settings: Settings) -> Facts:
    """Neighbours that annealing looks at in a second, from serial 1F1B on, its set-up included.

    One round, since the search looks between rounds whether it is done; a start above the bound makes it run one.
    """
    steps, start = min(settings.steps or ROUND, ROUND), serial_1f1b(problem)
    assert replay(problem, start).makespan > lower_bound(problem)
    limits = Limits(float("inf"), steps, seed=settings.seed)
    seconds = median_seconds(lambda: anneal_makespan(problem, limits=limits, start=start))
    return {"neighbours": steps, "seconds": seconds, "per_second": steps / seconds}


def _moves(problem: Problem, settings: Settings) -> Facts:
    """Moves that tabu search looks at in a second, from serial 1F1B on, without its set-up."""
    steps, goal = min(settings.steps or ROUND, ROUND) // 10, lower_bound(problem)
    searches = [Tabu(problem, serial_1f1b(problem), seed=settings.seed) for _ in range(_TIMES)]
    seconds = sum(_seconds(partial(search.run, steps, cap=float("inf"), goal=goal)) for search in searches)
    looked = sum(int(search.steps[1]) for search in searches)
    return {"seconds": seconds / _TIMES, "per_second": looked / seconds}


def _greedy(problem: Problem, settings: Settings) -> Facts:
    return {"seconds": median_seconds(lambda: greedy(problem))}


def _line(key: str, facts: Mapping[str, Any]) -> list[Any]:
    speeds = [facts.get(name) for name in ("per_second", "ops_per_second")]
    return [*key.split(), f"{facts['seconds']:.3g}", *(None if v is None else round(v) for v in speeds)]


_MEASURES = {"replay": _replay, "neighbours": _neighbours, "moves": _moves, "greedy": _greedy}
_KEYS = [f"{name} {what}" for what in ("replay", "neighbours", "moves") for name in _SIZES]
TABLE = Table((*_KEYS, *(f"{name} greedy" for name in PUBLISHED)), run, report, time_limit=60)

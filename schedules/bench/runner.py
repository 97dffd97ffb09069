"""Run the rows of a table that its file lacks, one after the other or two and more side by side."""

import fnmatch
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from schedules.bench.lines import append, done
from schedules.bench.problems import capped, published
from schedules.bench.table import Outcome, RowError, Settings
from schedules.bench.tables import TABLES
from schedules.found.commands import keep_solution
from schedules.search.limits import Limits
from schedules.solve import BUILDERS, solve


def run_table(
    name: str, *, out: Path, settings: Settings, only: Sequence[str] = (), jobs: int = 1, room: Path | None = None
) -> Iterator[str]:
    """Run what is missing, append each row to `out`, keep its order in `room` if any; yields a line for each row."""
    there = done(out, table=name, settings=settings)
    missing = [key for key in chosen(TABLES[name].keys, only=only) if key not in there]
    for key, outcome in _outcomes(name, missing, settings, jobs):
        append(out, table=name, row=key, settings=settings, facts=outcome.facts)
        said = ""
        if room is not None and outcome.solution is not None:
            said = "; " + keep_solution(outcome.solution, name=outcome.name, seed=settings.seed, room=room)
        yield f"{name} {key}: {outcome.facts.get('makespan', outcome.facts['seconds'])}{said}"


def chosen(keys: Sequence[str], *, only: Sequence[str]) -> list[str]:
    """The keys that a pattern fits, as a whole or by their first word. RowError for a pattern that fits none."""
    for pattern in only:
        if not any(_fits(key, pattern) for key in keys):
            raise RowError(f"--only {pattern}: no such row; there are {', '.join(keys)}")
    return [key for key in keys if not only or any(_fits(key, pattern) for pattern in only)]


def _fits(key: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(key, pattern) or fnmatch.fnmatchcase(key.split()[0], pattern)


def _outcomes(name: str, keys: Sequence[str], settings: Settings, jobs: int) -> Iterator[tuple[str, Outcome]]:
    if jobs == 1:
        _warm_up(settings.method)
        for key in keys:
            yield key, TABLES[name].run(key, settings)
        return
    context = get_context("spawn")  # solvers hold threads, which a fork would lose
    with ProcessPoolExecutor(jobs, context, initializer=_warm_up, initargs=(settings.method,)) as pool:
        futures = {pool.submit(_row, name, key, settings): key for key in keys}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _row(name: str, key: str, settings: Settings) -> Outcome:
    """One row in a process of its own; tables hold functions, which do not travel."""
    return TABLES[name].run(key, settings)


def _warm_up(method: str) -> None:
    """Load solvers and compile searches, so that no row's seconds hold that."""
    if method not in BUILDERS:
        solve(capped(published("exp2"), ratio=1.0), method=method, limits=Limits(5, steps=1000))

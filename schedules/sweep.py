"""Sweep: bubble ratios over depths, micro-batches and methods; sweep_page.py writes them down.

The problems are an actor and a critic in opposite directions on the same ranks, backward twice forward:

    actor  forward f_a, activation 1;  critic  forward f_c, activation f_c / f_a
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedules.builders import serial_1f1b
from schedules.forms import Form
from schedules.problem import Model, Problem, ProblemError
from schedules.replay import replay
from schedules.search.limits import Limits
from schedules.solve import solve

CAPLESS = ("serial", "gpipe", "overlay")  # methods that look at no cap


@dataclass(frozen=True)
class Grid:
    """What to sweep. `cap` is in multiples of serial 1F1B's peak memory; None sets no cap."""

    depths: Sequence[int]
    microbatches: Sequence[int]
    methods: Sequence[str]
    actor_forward: float = 5.0
    critic_forward: float = 2.0
    comm: float = 0.0
    cap: float | None = None


@dataclass(frozen=True)
class Point:
    """One solved problem. `peak_memory` is in multiples of serial 1F1B's."""

    depth: int
    microbatches: int
    method: str
    makespan: float
    lower_bound: float
    bubble_ratio: float
    peak_memory: float
    seconds: float

    @property
    def least_bubble_ratio(self) -> float:
        """What a makespan that meets the lower bound would have."""
        return max(0.0, 1 - (1 - self.bubble_ratio) * self.makespan / self.lower_bound) if self.lower_bound else 0.0


def problem_of(grid: Grid, *, depth: int, microbatches: int, shares: Sequence[float] | None = None) -> Problem:
    """Actor and critic in opposite directions on `depth` ranks. shares: of each micro-batch, what its work and memory
    are against those of an even one."""
    ranks = list(range(depth))
    costs = {"actor": (grid.actor_forward, ranks), "critic": (grid.critic_forward, ranks[::-1])}

    def form(even: float) -> Form:
        return even if shares is None else [[even * share for share in shares] for _ in ranks]

    models = tuple(
        Model(name, placement, microbatches, form(f), form(2 * f), activation=form(f / grid.actor_forward))
        for name, (f, placement) in costs.items()
    )
    return Problem(depth, models, comm=grid.comm)


def sweep(grid: Grid, *, limits: Limits) -> Iterator[Point]:
    """Solve every point; the limits are for each. Methods that look at no cap run without one (the peak is told).

    Raises ProblemError before the first point where one of the problems cannot be posed.
    """
    sizes = [(depth, m) for depth in dict.fromkeys(grid.depths) for m in dict.fromkeys(grid.microbatches)]
    for depth, m in sizes:
        _posed(grid, depth, m)
    for depth, m in sizes:
        free, capped, serial_peak = _posed(grid, depth, m)
        for method in dict.fromkeys(grid.methods):
            solved = solve(free if method in CAPLESS else capped, method=method, limits=limits)
            result, bound = solved.replay, solved.lower_bound
            peak = round(result.max_peak_memory / serial_peak, 4)
            numbers = (result.makespan, bound, round(result.bubble_ratio, 6), peak, round(solved.seconds, 3))
            yield Point(depth, m, method, *numbers)


def number_of_points(grid: Grid) -> int:
    """How many a sweep has; what is named twice counts once."""
    return len(set(grid.depths)) * len(set(grid.microbatches)) * len(set(grid.methods))


def command_of(grid: Grid, *, limits: Limits) -> str:
    """The command line that makes the sweep again, but for where it writes."""
    words: list[object] = ["python", "-m", "schedules", "sweep"]
    words += ["--depths", *grid.depths, "--microbatches", *grid.microbatches, "--methods", *grid.methods]
    words += ["--actor", grid.actor_forward, "--critic", grid.critic_forward, "--comm", grid.comm]
    words += [] if grid.cap is None else ["--cap", grid.cap]
    words += ["--time-limit", limits.seconds, *([] if limits.steps is None else ["--steps", limits.steps])]
    words += ["--workers", limits.workers, "--seed", limits.seed]
    return shlex.join(repr(word).removesuffix(".0") if isinstance(word, float) else str(word) for word in words)


def _posed(grid: Grid, depth: int, microbatches: int) -> tuple[Problem, Problem, float]:
    """The problem without and with the cap, and the peak memory of serial 1F1B."""
    free = problem_of(grid, depth=depth, microbatches=microbatches)
    serial_peak = replay(free, serial_1f1b(free)).max_peak_memory
    try:
        return free, free if grid.cap is None else free.with_cap(serial_peak * grid.cap), serial_peak
    except ProblemError as error:
        place = f"{depth} ranks, {microbatches} micro-batches, cap {grid.cap:g} x serial 1F1B's peak {serial_peak:g}"
        raise ProblemError(f"{place}: {error}") from None

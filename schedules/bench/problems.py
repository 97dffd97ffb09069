"""The problems of the tables: the 12 published ones, and what the tables make of them."""

from dataclasses import dataclass, replace
from importlib.resources import as_file, files

from schedules.builders import serial_1f1b
from schedules.problem import Problem
from schedules.replay import replay


@dataclass(frozen=True)
class Published:
    """What the authors' search gave: the annealed order's makespan and peak memory, and the seconds it took."""

    makespan: float
    peak: float
    seconds: float


# RLHFuse (arXiv 2409.13221), the authors' artifact; the memory is that after their second pass.
PUBLISHED = {
    "exp0": Published(708, 19.7, 918),
    "exp1": Published(372, 15.75, 473),
    "exp2": Published(225, 15.6, 20),
    "exp3": Published(702, 20.5, 4979),
    "exp4": Published(366, 18.55, 1416),
    "exp5": Published(225, 15.6, 167),
    "exp6": Published(618, 39.72, 4042),
    "exp7": Published(330, 29.88, 1075),
    "exp8": Published(186, 26.24, 679),
    "exp9": Published(613, 38.72, 3976),
    "exp10": Published(318, 32.16, 1564),
    "exp11": Published(186, 26.24, 249),
}


def published(name: str) -> Problem:
    """One of the 12 problems of configs/schedule, exp0 to exp11."""
    with as_file(files("configs") / "schedule" / f"{name}.yaml") as path:
        return Problem.load(path)


def serial_peak(problem: Problem) -> float:
    """The peak memory of serial 1F1B, the unit of all memory caps here."""
    return replay(problem, serial_1f1b(problem)).max_peak_memory


def capped(problem: Problem, *, ratio: float) -> Problem:
    """The problem under a memory cap of that many times serial 1F1B's peak."""
    return problem.with_cap(round(ratio * serial_peak(problem), 6))


def split(problem: Problem) -> Problem:
    """The problem with backwards that may be split: W takes as long as F, and so does the rest of a backward of 2 F."""
    return replace(problem, models=tuple(replace(model, backward_weight=model.forward) for model in problem.models))


def crossed(problem: Problem, *, ranks: int, microbatches: int) -> Problem:
    """A problem of two models in opposite directions over that many ranks, at the costs of the given one's models."""
    line = list(range(ranks))
    models = tuple(
        replace(model, placement=placement, microbatches=microbatches)
        for model, placement in zip(problem.models, (line, line[::-1]), strict=True)
    )
    return Problem(ranks, models, problem.comm)

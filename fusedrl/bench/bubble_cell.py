"""One cell of the sweep of bubble ratios: what is asked, and the file that keeps what came of it.

An actor and a critic cross `depth` ranks in opposite directions, backward twice forward. Micro-batches hold `samples`
sequences each, of lengths drawn from `mix` (lengths.py) by `seed`; an op's time and memory go with its tokens. The mean
micro-batch is the same in all mixes, so that the work of a pass is.

A file is written whole. It is kept where it was made with the settings that are asked now, and made again where not.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fusedrl.bench.arguments import ArgumentError, one_of
from fusedrl.bench.cases import ALL_METHODS
from fusedrl.bench.lengths import DISTRIBUTIONS
from fusedrl.checkpoint.atomic import write_file
from schedules.problem import Problem
from schedules.search.limits import Limits
from schedules.sweep import Grid, problem_of

MEDIAN = 512  # tokens of a sequence; only ratios matter
LEAST = {"depth": 1, "microbatches": 1, "samples": 1, "repeats": 2, "seed": 0, "payload": 4}
MOST = {"depth": 64, "microbatches": 512, "samples": 4096}
ABOVE_0 = ("actor", "critic", "unit_ms", "time_limit", "timeout")
AXES = ("depth", "microbatches", "mix", "method")  # what a cell's file is named by, and told of it
Figures = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """depth: ranks; actor, critic: forward times of a stage, in units of unit_ms milliseconds; comm: of a message;
    repeats: passes, the first a warm-up; time_limit (seconds), steps, seed: of searches, and seed of the lengths;
    payload: bytes of a message; timeout: seconds that a message may take."""

    depth: int = 4
    microbatches: int = 8
    mix: str = "fixed"
    method: str = "auto"
    actor: float = 5.0
    critic: float = 2.0
    comm: float = 0.0
    samples: int = 4
    seed: int = 0
    unit_ms: float = 1.0
    repeats: int = 4
    payload: int = 16384
    time_limit: float = 5.0
    steps: int | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        one_of(self.method, ALL_METHODS, key="method")
        one_of(self.mix, tuple(DISTRIBUTIONS), key="mix")
        for key in LEAST:
            if getattr(self, key) < LEAST[key]:
                raise ArgumentError(f"{key}: {getattr(self, key)} is too small; at least {LEAST[key]}")
            if key in MOST and getattr(self, key) > MOST[key]:
                raise ArgumentError(f"{key}: {getattr(self, key)} is too large; at most {MOST[key]}")
        for key in ABOVE_0:
            if not 0 < getattr(self, key) <= 1e6:
                raise ArgumentError(f"{key}: {getattr(self, key):g} must be above 0 and at most 1e6")
        if not 0 <= self.comm <= 1e6:
            raise ArgumentError(f"comm: {self.comm:g} must be from 0 to 1e6")

    @property
    def name(self) -> str:
        return ",".join(f"{key}={getattr(self, key)}" for key in AXES)

    @property
    def limits(self) -> Limits:
        return Limits(seconds=self.time_limit, steps=self.steps, seed=self.seed)

    def told(self) -> str:
        return f"{self.depth} ranks, {self.microbatches} micro-batches, {self.mix}, {self.method}"


def shares_of(cell: Cell) -> list[float]:
    """Of each micro-batch, its tokens against the mean micro-batch's."""
    random = np.random.default_rng(cell.seed)
    lengths = DISTRIBUTIONS[cell.mix](MEDIAN, count=cell.microbatches * cell.samples, random=random)
    tokens = lengths.reshape(cell.microbatches, cell.samples).sum(axis=1)
    return [float(each) for each in tokens / tokens.mean()]


def cell_problem(cell: Cell) -> Problem:
    grid = Grid((cell.depth,), (cell.microbatches,), (cell.method,), cell.actor, cell.critic, cell.comm)
    return problem_of(grid, depth=cell.depth, microbatches=cell.microbatches, shares=shares_of(cell))


def file_of(cell: Cell, *, folder: Path) -> Path:
    return folder / "cells" / f"{cell.name}.json"


def failure_of(cell: Cell, *, folder: Path) -> Path:
    """Why a cell could not be made, at the last try."""
    return file_of(cell, folder=folder).with_suffix(".failed")


def write_cell(cell: Cell, figures: Mapping[str, Any], *, folder: Path) -> None:
    path = file_of(cell, folder=folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps({"settings": asdict(cell), "figures": figures}, indent=2) + "\n")
    failure_of(cell, folder=folder).unlink(missing_ok=True)


def read_cell(cell: Cell, *, folder: Path) -> Figures | None:
    """The figures; None where there is no file that is whole and of these settings."""
    found = _read(cell, folder=folder)
    return None if found is None or _differing(cell, found) else found["figures"]


def changed(cell: Cell, *, folder: Path) -> list[str]:
    """The keys whose values a kept file's differ from; empty where there is none."""
    found = _read(cell, folder=folder)
    return [] if found is None else _differing(cell, found)


def _differing(cell: Cell, found: Mapping[str, Any]) -> list[str]:
    settings = found["settings"]
    known = [each.name for each in fields(Cell)]
    return [key for key in known if key not in settings or settings[key] != getattr(cell, key)] + [
        key for key in settings if key not in known
    ]


def _read(cell: Cell, *, folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file_of(cell, folder=folder).read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and all(isinstance(found.get(key), dict) for key in ("settings", "figures"))
    return found if whole else None

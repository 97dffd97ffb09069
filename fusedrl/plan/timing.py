"""Medians of repeated timings on this rank, and of all ranks' medians."""

import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch

from fusedrl.parallel.comm import all_gather_object
from fusedrl.pipeline.cuda_clock import CudaClock
from fusedrl.pipeline.timeline import Clock, HostClock

WARM_UP = 2  # first repeats, left out: what is made once, caches, threads
Mark = Callable[[], None]


def clock_of(device: torch.device) -> Clock:
    """Events on a CUDA stream, else the host's clock."""
    return CudaClock() if device.type == "cuda" else HostClock()


def laps(work: Callable[[Mark], None], *, device: torch.device, repeats: int) -> list[list[float]]:
    """Seconds between the marks that `work(mark)` sets, by repeat."""
    found = [_lap(work, device=device) for _ in range(WARM_UP + repeats)]
    return found[WARM_UP:]


def _lap(work: Callable[[Mark], None], *, device: torch.device) -> list[float]:
    clock = clock_of(device)
    marks: list[Any] = []
    work(lambda: marks.append(clock.mark()))
    return [(after - before) / 1e9 for before, after in pairwise(clock.resolve(marks))]


def medians(repeats: Sequence[Sequence[float]]) -> list[float]:
    """Of each column."""
    return [statistics.median(column) for column in zip(*repeats, strict=True)]


def over_ranks(seconds: Sequence[float]) -> tuple[float, ...]:
    """The median of all ranks' numbers, the same on each. A collective of the world."""
    return tuple(medians(all_gather_object(list(seconds))))

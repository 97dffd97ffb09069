"""How far a mean over prompts can be trusted: an interval for what it would be over all prompts of that kind.

    binomial    Wilson's score interval, where every prompt counts 0 or 1; it has a width at 0 and at 1, too
    bootstrap   percentiles of the mean over prompts drawn anew with putting back, where they count anything

Prompts are the unit: responses to one prompt hang together, so n of them are not n independent trials.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np

CHUNK = 1 << 20  # numbers drawn at once


@dataclass(frozen=True)
class Interval:
    low: float
    high: float
    kind: Literal["binomial", "bootstrap"]


def interval(
    values: Sequence[float], *, confidence: float, draws: int, seed: int, may_share: bool = True
) -> Interval | None:
    """Of the mean of `values`, one a prompt; None where one prompt cannot tell. may_share: of 0 and 1 it is a share of
    prompts."""
    if may_share and all(value in (0.0, 1.0) for value in values):
        return wilson(int(sum(values)), len(values), confidence=confidence)
    return None if len(values) < 2 else bootstrap(values, confidence=confidence, draws=draws, seed=seed)


def wilson(right: int, trials: int, *, confidence: float) -> Interval:
    """Wilson 1927, without a correction for continuity."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, scale = right / trials, 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    half = z / scale * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    low = 0.0 if right == 0 else middle - half  # exact ends, whatever the rounding
    high = 1.0 if right == trials else middle + half
    return Interval(low, high, "binomial")


def bootstrap(values: Sequence[float], *, confidence: float, draws: int, seed: int) -> Interval:
    """The same for the same values, number of draws and seed."""
    generator, found = np.random.default_rng(seed), []
    array = np.asarray(values, dtype=np.float64)
    step = max(1, CHUNK // len(array))
    for first in range(0, draws, step):
        shape = (min(step, draws - first), len(array))
        found.append(array[generator.integers(0, len(array), shape)].mean(axis=1))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
    return Interval(float(low), float(high), "bootstrap")

"""Response lengths to generate: distributions that a stream of samples meets, drawn by seed.

fixed        all alike: nothing to gain, and nothing to lose
long_tailed  log-normal, sigma 0.9: P99.9 is 16 times the median; cut at 16 times, the response limit
bimodal      5 % answer at 12 times the length of the others, as where some prompts make a model think
"""

from collections.abc import Callable

import numpy as np

SIGMA = 0.9
LIMIT = 16  # medians
LONG_SHARE, LONG_FACTOR, SPREAD = 0.05, 12.0, 0.15


def fixed(median: int, *, count: int, random: np.random.Generator) -> np.ndarray:
    return np.full(count, round(1.5 * median))


def long_tailed(median: int, *, count: int, random: np.random.Generator) -> np.ndarray:
    return _whole(median * random.lognormal(0.0, SIGMA, count), limit=LIMIT * median)


def bimodal(median: int, *, count: int, random: np.random.Generator) -> np.ndarray:
    centre = np.where(random.random(count) < LONG_SHARE, LONG_FACTOR * median, median)
    return _whole(centre * random.lognormal(0.0, SPREAD, count), limit=LIMIT * median)


DISTRIBUTIONS: dict[str, Callable[..., np.ndarray]] = {"fixed": fixed, "long_tailed": long_tailed, "bimodal": bimodal}


def _whole(lengths: np.ndarray, *, limit: int) -> np.ndarray:
    return np.clip(np.rint(lengths), 1, limit).astype(np.int64)

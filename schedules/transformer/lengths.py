"""Micro-batches of samples whose lengths differ, as RLHF's do: log-normal, cut at a longest length, by seed.

length = median x exp(spread x z), z standard normal; a spread of 0 makes all samples the median
"""

import math
import random
from collections.abc import Iterator
from statistics import NormalDist

_LEAST = 2.0**-54  # below the smallest nonzero random(): the normal quantile of 0 is infinite


def microbatch_lengths(
    microbatches: int, *, samples: int, median: int, spread: float, longest: int, seed: int
) -> tuple[tuple[int, ...], ...]:
    """Lengths in tokens of the samples of each micro-batch, unsorted: samples come as generation finishes them."""
    draws = _draws(median, spread, longest, random.Random(seed))
    return tuple(tuple(next(draws) for _ in range(samples)) for _ in range(microbatches))


def _draws(median: int, spread: float, longest: int, source: random.Random) -> Iterator[int]:
    # By quantiles of random(), whose sequence Python promises to keep for a seed; its normal variates have no promise.
    normal = NormalDist()
    while True:
        z = normal.inv_cdf(max(source.random(), _LEAST))
        yield max(1, min(longest, round(median * math.exp(spread * z))))

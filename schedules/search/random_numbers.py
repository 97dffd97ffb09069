"""Random numbers of the compiled searches: xorshift64*, its state an array of one number."""

import numpy as np

from schedules.search.compiled import compiled

_SEED = 0x9E3779B97F4A7C15  # any odd pattern of bits, so that small seeds do not start near zero


def seeded(seed: int) -> np.ndarray:
    """The state that a seed stands for."""
    return np.array([_SEED ^ (seed + 1)], dtype=np.uint64)


@compiled
def uniform(state: np.ndarray) -> float:
    """The next number in [0, 1)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0

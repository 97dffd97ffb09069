"""Local search from many starts: one unit's way is changed for the better, then two units' at once, until none helps.

A choice that does not fit counts as slower than all that do, by how much it is over, so that the search finds its way
into the room.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit

from fusedrl.plan.search.kernel import Array, Tables, excess_of, seconds_of
from fusedrl.plan.search.space import Space

_OVER = 1e9  # seconds: above any step's


def descend(
    t: Tables, space: Space, *, starts: Sequence[Sequence[int]], restarts: int, seed: int
) -> tuple[Array, float]:
    """(the best choice found, its seconds or infinity where none fits): from `starts` and from random ones."""
    random = np.random.default_rng(seed)
    ways_U = np.array([unit.ways for unit in space.units])
    greedy = [int(np.argmin(unit.seconds_K)) for unit in space.units]
    drawn = [random.integers(0, ways_U) for _ in range(restarts)]
    best, least = np.array(greedy, dtype=np.int64), np.inf
    for start in [greedy, *starts, *drawn]:
        choice = np.array(start, dtype=np.int64)
        found = _ones(t, choice)
        if found < least:
            best, least = choice, found
    least = _twos(t, best)
    return best, float(least) if least < _OVER else float("inf")


@njit(cache=True, nogil=True)
def cost(t: Tables, choice: Array) -> float:
    """Seconds, or what stands for being over the room."""
    over = excess_of(t, choice)
    return seconds_of(t, choice) if over <= 0 else _OVER * (1 + over / t.room)


@njit(cache=True, nogil=True)
def _ones(t: Tables, choice: Array) -> float:
    """Change `choice` one unit at a time, each to its best way, until none helps; its cost then."""
    least = cost(t, choice)
    improved = True
    while improved:
        improved = False
        for u in range(len(choice)):
            kept = choice[u]
            for k in range(t.ways_U[u]):
                choice[u] = k
                found = cost(t, choice)
                if found < least:
                    least, kept, improved = found, k, True
            choice[u] = kept
    return least


@njit(cache=True, nogil=True)
def _twos(t: Tables, choice: Array) -> float:
    """The same with all pairs of units."""
    least = _ones(t, choice)
    improved = True
    while improved:
        improved = False
        for u in range(len(choice)):
            for v in range(u):
                kept_u, kept_v = choice[u], choice[v]
                for k in range(t.ways_U[u]):
                    choice[u] = k
                    for j in range(t.ways_U[v]):
                        choice[v] = j
                        found = cost(t, choice)
                        if found < least:
                            least, kept_u, kept_v, improved = found, k, j, True
                choice[u], choice[v] = kept_u, kept_v
    return least

"""The search of ReaL (arXiv 2406.14088, section 5.2), as a baseline: a Metropolis walk over the ways of calls.

    start     each unit's fastest way, whatever the others do
    propose   one unit, any other way of it, all alike
    accept    with probability min(1, exp(-beta x (cost' - cost)))        cost: seconds, x PENALTY where it does not fit

The penalty is that of the released search. beta is in units of the start's cost, so that it means the same for steps of
seconds and of hours; the published one is in units of an estimator that we do not have. Units and costs are ours: the
walk is theirs, the plans that it meets are not.
"""

import numpy as np
from numba import njit

from fusedrl.plan.search.kernel import Array, Tables, excess_of, seconds_of
from fusedrl.plan.search.space import Space

PENALTY = 3.0


def walk(t: Tables, space: Space, *, steps: int, beta: float, seed: int) -> tuple[Array, float]:
    """(the fastest choice met that fits, its seconds or infinity where none did)."""
    random = np.random.default_rng(seed)
    start = np.array([int(np.argmin(unit.seconds_K)) for unit in space.units], dtype=np.int64)
    unit_F = np.repeat(np.arange(len(space.units)), t.ways_U)
    proposed = random.integers(0, len(unit_F), size=steps)
    best, seconds = _walk(t, start, unit_F, proposed, random.random(steps), beta)
    return best, float(seconds)


@njit(cache=True, nogil=True)
def _cost(t: Tables, choice: Array) -> tuple[float, bool]:
    fits = excess_of(t, choice) <= 0
    seconds = seconds_of(t, choice)
    return (seconds if fits else PENALTY * seconds), fits


@njit(cache=True, nogil=True)
def _walk(t: Tables, choice: Array, unit_F: Array, proposed: Array, drawn: Array, beta: float) -> tuple[Array, float]:
    best, least = choice.copy(), np.inf
    cost, fits = _cost(t, choice)
    scale = beta / cost
    if fits:
        least = cost
    for i in range(len(proposed)):
        u = unit_F[proposed[i]]
        before = choice[u]
        choice[u] = proposed[i] - t.begin_U[u]
        found, fits = _cost(t, choice)
        if found > cost and drawn[i] >= np.exp(-scale * (found - cost)):
            choice[u] = before
            continue
        cost = found
        if fits and cost < least:
            least = cost
            best[:] = choice
    return best, least

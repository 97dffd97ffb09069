"""Branch and bound: units are given their ways one after the other, and what cannot beat the best so far is left.

With all branches looked at, the best choice is proved to be the fastest that fits. The budget counts branches, not
seconds, so that the same space and seed give the same choice on every machine.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit

from fusedrl.plan.search.kernel import Array, Tables, bound, excess_of, seconds_of
from fusedrl.plan.search.space import Space

SAME = 1e-12  # relative: a choice that gains less is as good as the best, and sums in floating point differ by so much


def sequence(space: Space) -> Array:
    """The order in which units are chosen: training, whose layouts the others' moves hang on, then the longest."""
    key = [(-unit.phase if unit.phase == 2 else 0, -float(unit.seconds_K.min())) for unit in space.units]
    return np.array(sorted(range(len(key)), key=lambda u: key[u]), dtype=np.int64)


def branch(t: Tables, space: Space, *, start: Sequence[int] | None, nodes: int) -> tuple[Array, float, bool, int]:
    """(choice, its seconds, whether proved, branches looked at). Seconds are infinite where no choice is known.

    start: a choice that fits, to begin with.
    """
    ranked = [np.argsort(unit.seconds_K, kind="stable") for unit in space.units]
    ranked_F = np.concatenate(ranked).astype(np.int64)
    best = np.full(len(space.units), -1, dtype=np.int64) if start is None else np.array(start, dtype=np.int64)
    seconds = np.inf if start is None else seconds_of(t, best)
    choice, found, proved, tried = _branch(t, sequence(space), ranked_F, best, seconds, nodes)
    return choice, float(found), bool(proved), int(tried)


@njit(cache=True, nogil=True)
def _branch(
    t: Tables, sequence: Array, ranked_F: Array, best: Array, seconds: float, nodes: int
) -> tuple[Array, float, bool, int]:
    """Depth first. at_D: the next way to try at each depth."""
    units = len(sequence)
    choice, at_D = np.full(units, -1, dtype=np.int64), np.zeros(units, dtype=np.int64)
    depth, tried = 0, 0
    best = best.copy()
    while depth >= 0:
        u = sequence[depth]
        if at_D[depth] == t.ways_U[u]:
            choice[u] = -1
            depth -= 1
            continue
        if tried == nodes:
            return best, seconds, False, tried
        choice[u] = ranked_F[t.begin_U[u] + at_D[depth]]
        at_D[depth] += 1
        tried += 1
        if bound(t, choice) >= seconds * (1 - SAME) or excess_of(t, choice) > 0:
            continue
        if depth + 1 < units:
            depth += 1
            at_D[depth] = 0
            continue
        found = seconds_of(t, choice)
        if found < seconds:
            seconds = found
            best[:] = choice
    return best, seconds, True, tried

"""What a choice comes to, compiled: space.py's rules on arrays, and a lower bound for choices that are not made yet.

Legend: U units, F ways of all units in a row, P phases, M moves, S ways of a move's source, K ways of its unit.
A choice holds each unit's way, counted from the unit's first, or -1 where it is open.
"""

from itertools import permutations
from typing import NamedTuple

import numpy as np
from numba import njit

from fusedrl.plan.search.space import PHASES, Space

Array = np.ndarray
MOST = 4  # units of a phase


class Tables(NamedTuple):
    """A Space as arrays. least_U, least_MS: fewest seconds of a unit, and of a move's unit given its source's way;
    area_U: fewest seconds x ranks. orders: [units of a phase, order, place]; counts: how many orders there are."""

    ranks: int
    room: float
    begin_U: Array
    ways_U: Array
    phase_U: Array
    seconds_F: Array
    first_F: Array
    end_F: Array
    held_FP: Array
    burst_F: Array
    unit_M: Array
    source_M: Array
    seconds_MSK: Array
    bytes_MSK: Array
    least_U: Array
    least_MS: Array
    area_U: Array
    orders: Array
    counts: Array


def tables(space: Space) -> Tables:
    """The arrays of a space."""
    ways_U = np.array([unit.ways for unit in space.units], dtype=np.int64)
    most, moves = int(ways_U.max(initial=1)), space.moves
    seconds_MSK, bytes_MSK = np.zeros((len(moves), most, most)), np.zeros((len(moves), most, most))
    least_MS = np.zeros((len(moves), most))
    for m, move in enumerate(moves):
        rows, columns = move.seconds_SK.shape
        seconds_MSK[m, :rows, :columns], bytes_MSK[m, :rows, :columns] = move.seconds_SK, move.bytes_SK
        least_MS[m, :rows] = (space.units[move.unit].seconds_K[None, :] + move.seconds_SK).min(axis=1)
    orders, counts = _orders()
    return Tables(
        ranks=space.ranks,
        room=float(space.room),
        begin_U=np.cumsum(ways_U) - ways_U,
        ways_U=ways_U,
        phase_U=np.array([unit.phase for unit in space.units], dtype=np.int64),
        seconds_F=np.concatenate([unit.seconds_K for unit in space.units]).astype(float),
        first_F=np.concatenate([unit.first_K for unit in space.units]).astype(np.int64),
        end_F=np.concatenate([unit.end_K for unit in space.units]).astype(np.int64),
        held_FP=np.concatenate([unit.held_KP for unit in space.units]).astype(float),
        burst_F=np.concatenate([unit.burst_K for unit in space.units]).astype(float),
        unit_M=np.array([move.unit for move in moves], dtype=np.int64),
        source_M=np.array([move.source for move in moves], dtype=np.int64),
        seconds_MSK=seconds_MSK,
        bytes_MSK=bytes_MSK,
        least_U=np.array([unit.seconds_K.min() for unit in space.units]),
        least_MS=least_MS,
        area_U=np.array([(unit.seconds_K * (unit.end_K - unit.first_K)).min() for unit in space.units]),
        orders=orders,
        counts=counts,
    )


def _orders() -> tuple[Array, Array]:
    of = [list(permutations(range(n))) for n in range(MOST + 1)]
    orders = np.zeros((MOST + 1, max(map(len, of)), MOST), dtype=np.int64)
    for n, found in enumerate(of):
        for i, order in enumerate(found):
            orders[n, i, :n] = order
    return orders, np.array([len(found) for found in of], dtype=np.int64)


@njit(cache=True, nogil=True)
def duration(t: Tables, choice: Array, u: int) -> float:
    """Seconds of a unit and of the moves before it, where their source is chosen."""
    seconds = t.seconds_F[t.begin_U[u] + choice[u]]
    for m in range(len(t.unit_M)):
        if t.unit_M[m] == u and choice[t.source_M[m]] >= 0:
            seconds += t.seconds_MSK[m, choice[t.source_M[m]], choice[u]]
    return seconds


@njit(cache=True, nogil=True)
def span(t: Tables, choice: Array, phase: int) -> float:
    """Seconds of a phase, over its chosen units: the best of all their orders."""
    took, first, end = np.zeros(MOST), np.zeros(MOST, dtype=np.int64), np.zeros(MOST, dtype=np.int64)
    ends = np.zeros(MOST)
    n = 0
    for u in range(len(choice)):
        if t.phase_U[u] == phase and choice[u] >= 0:
            way = t.begin_U[u] + choice[u]
            took[n], first[n], end[n] = duration(t, choice, u), t.first_F[way], t.end_F[way]
            n += 1
    best = np.inf if n else 0.0
    for i in range(t.counts[n] if n else 0):
        last = 0.0
        for at in range(n):
            a = t.orders[n, i, at]
            start = 0.0
            for earlier in range(at):
                b = t.orders[n, i, earlier]
                if first[a] < end[b] and first[b] < end[a] and ends[b] > start:
                    start = ends[b]
            ends[a] = start + took[a]
            last = max(last, ends[a])
        best = min(best, last)
    return best


@njit(cache=True, nogil=True)
def seconds_of(t: Tables, choice: Array) -> float:
    """Seconds of a step, over the chosen units."""
    total = 0.0
    for phase in range(t.held_FP.shape[1]):
        total += span(t, choice, phase)
    return total


@njit(cache=True, nogil=True)
def excess_of(t: Tables, choice: Array) -> float:
    """Bytes above the room on the fullest rank, over the chosen units; looked at where units begin."""
    most = 0.0
    for at in range(len(choice)):
        if choice[at] < 0:
            continue
        rank = t.first_F[t.begin_U[at] + choice[at]]
        for phase in range(t.held_FP.shape[1]):
            held, burst = 0.0, 0.0
            for u in range(len(choice)):
                if choice[u] < 0:
                    continue
                way = t.begin_U[u] + choice[u]
                if t.first_F[way] <= rank < t.end_F[way]:
                    held += t.held_FP[way, phase]
                    if t.phase_U[u] == phase:
                        burst = max(burst, _need(t, choice, u))
            most = max(most, held + burst)
    return most - t.room


@njit(cache=True, nogil=True)
def _need(t: Tables, choice: Array, u: int) -> float:
    need = t.burst_F[t.begin_U[u] + choice[u]]
    for m in range(len(t.unit_M)):
        if t.unit_M[m] == u and choice[t.source_M[m]] >= 0:
            need += t.bytes_MSK[m, choice[t.source_M[m]], choice[u]]
    return need


@njit(cache=True, nogil=True)
def bound(t: Tables, choice: Array) -> float:
    """No choice that agrees with this one where it is made takes fewer seconds."""
    total = 0.0
    for phase in range(t.held_FP.shape[1]):
        least, area = span(t, choice, phase), 0.0
        for u in range(len(choice)):
            if t.phase_U[u] != phase:
                continue
            if choice[u] >= 0:
                way = t.begin_U[u] + choice[u]
                area += duration(t, choice, u) * (t.end_F[way] - t.first_F[way])
            else:
                area += t.area_U[u]
                least = max(least, _least(t, choice, u))
        total += max(least, area / t.ranks)
    return total


@njit(cache=True, nogil=True)
def _least(t: Tables, choice: Array, u: int) -> float:
    least = t.least_U[u]
    for m in range(len(t.unit_M)):
        if t.unit_M[m] == u and choice[t.source_M[m]] >= 0:
            least = max(least, t.least_MS[m, choice[t.source_M[m]]])
    return least


assert len(PHASES) == 3

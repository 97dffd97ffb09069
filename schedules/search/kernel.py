"""The inner loop of the annealing, compiled: swap two neighbours of a row, replay, keep or undo.

Rows are a matrix of op numbers; `place` answers where an op stands in each of its rows (slots, see Tables). A replay
is the one of schedules/replay.py; it stops early once some op's end plus its tail is past `limit`.
"""

from typing import NamedTuple

import numpy as np

from schedules.search.compiled import compiled
from schedules.search.random_numbers import uniform

Floats = np.ndarray
Ints = np.ndarray


class Tables(NamedTuple):
    """What stays the same through a search. Slots: op i owns ranks[slot[i] : slot[i + 1]], one per rank it occupies."""

    duration: Floats
    tail: Floats
    acquire: Floats
    release: Floats
    chain: Ints
    slot: Ints
    ranks: Ints
    waits: Ints  # how many ends an op waits for: its data, and the previous op of each of its rows
    after_from: Ints  # ops that wait for op i: after[after_from[i] : after_from[i + 1]]
    after: Ints
    lag: Floats


class Rows(NamedTuple):
    """The rows, and where each op stands in them."""

    ops: Ints  # rank x position
    length: Ints
    place: Ints  # per slot
    start: Floats
    cause: Ints  # the op whose end set the start, -1 where none did
    held: Floats  # rank x position: memory before the op


@compiled
def replay_rows(t: Tables, rows: Rows, waiting: Ints, stack: Ints, limit: float) -> float:
    """Makespan; infinity where it would pass `limit` or ops wait for each other. Fills start and cause."""
    ops, length, place, start, cause = rows.ops, rows.length, rows.place, rows.start, rows.cause
    count = len(waiting)
    for i in range(count):
        waiting[i] = t.waits[i]
        start[i] = 0.0
        cause[i] = -1
    top = done = 0
    makespan = 0.0
    for r in range(len(length)):
        if length[r] > 0:
            i = ops[r, 0]
            waiting[i] -= 1
            if waiting[i] == 0:
                stack[top] = i
                top += 1
    while top > 0:
        top -= 1
        i = stack[top]
        done += 1
        end = start[i] + t.duration[i]
        if end + t.tail[i] > limit:
            return np.inf
        makespan = max(makespan, end)
        for k in range(t.after_from[i], t.after_from[i + 1]):
            j = t.after[k]
            arrives = end + t.lag[k]
            if arrives > start[j]:
                start[j] = arrives
                cause[j] = i
            waiting[j] -= 1
            if waiting[j] == 0:
                stack[top] = j
                top += 1
        for k in range(t.slot[i], t.slot[i + 1]):
            r, p = t.ranks[k], place[k] + 1
            if p < length[r]:
                j = ops[r, p]
                if end >= start[j] and end > 0.0:
                    start[j] = end
                    cause[j] = i
                waiting[j] -= 1
                if waiting[j] == 0:
                    stack[top] = j
                    top += 1
    return makespan if done == count else np.inf


@compiled
def _swap(t: Tables, rows: Rows, r: int, p: int) -> None:
    a, b = rows.ops[r, p], rows.ops[r, p + 1]
    rows.ops[r, p], rows.ops[r, p + 1] = b, a
    for k in range(t.slot[a], t.slot[a + 1]):
        if t.ranks[k] == r:
            rows.place[k] = p + 1
    for k in range(t.slot[b], t.slot[b + 1]):
        if t.ranks[k] == r:
            rows.place[k] = p
    rows.held[r, p + 1] = rows.held[r, p] + t.acquire[b] - t.release[b]
    # held beyond the pair is the same either way


@compiled
def _may_swap(t: Tables, a: int, b: int) -> bool:
    if t.chain[a] == t.chain[b]:
        return False
    for k in range(t.after_from[a], t.after_from[a + 1]):  # noqa: SIM110 (numba compiles no generator here)
        if t.after[k] == b:
            return False
    return True


@compiled
def _critical_pairs(t: Tables, rows: Rows, pairs: Ints) -> int:
    """Neighbours on a longest path: only swapping such a pair can shorten the makespan. Gives their count."""
    last = 0
    for i in range(len(rows.start)):
        if rows.start[i] + t.duration[i] > rows.start[last] + t.duration[last]:
            last = i
    found = 0
    i = last
    while rows.cause[i] >= 0:
        j = rows.cause[i]
        for k in range(t.slot[i], t.slot[i + 1]):
            r, p = t.ranks[k], rows.place[k]
            if p > 0 and rows.ops[r, p - 1] == j and _may_swap(t, j, i) and found < len(pairs):
                pairs[found, 0] = r
                pairs[found, 1] = p - 1
                found += 1
        i = j
    return found


@compiled
def _over(memory: float, target: float) -> float:
    return memory - target if memory > target else 0.0


@compiled
def excess_of(t: Tables, rows: Rows, target: float) -> float:
    """Memory above the target, summed over all forwards."""
    total = 0.0
    for r in range(len(rows.length)):
        for p in range(rows.length[r]):
            taken = t.acquire[rows.ops[r, p]]
            if taken > 0.0:
                total += _over(rows.held[r, p] + taken, target)
    return total


@compiled
def _excess_change(t: Tables, rows: Rows, r: int, p: int, target: float) -> float:
    a, b, held = rows.ops[r, p], rows.ops[r, p + 1], rows.held[r, p]
    change = 0.0
    if t.acquire[a] > 0.0:
        change += _over(held + t.acquire[b] - t.release[b] + t.acquire[a], target) - _over(held + t.acquire[a], target)
    if t.acquire[b] > 0.0:
        change += _over(held + t.acquire[b], target) - _over(held + t.acquire[a] - t.release[a] + t.acquire[b], target)
    return change


@compiled
def anneal_steps(
    t: Tables,
    rows: Rows,
    best: Ints,
    random: Ints,
    cap: float,
    target: float,
    limit: float,
    weight_time: float,
    hot: float,
    cold: float,
    steps: int,
) -> tuple[float, float]:
    """Metropolis over neighbour swaps, the temperature falling from `hot` to `cold` geometrically.

    energy = weight_time * makespan + memory above `target`. Memory never passes `cap`, the makespan never `limit`.
    Gives the lowest energy and its makespan; `best` receives its rows. Long, because numba compiles one loop best.
    """
    count = len(t.duration)
    waiting, stack = np.empty(count, np.int64), np.empty(count, np.int64)
    pairs = np.empty((4 * count, 2), np.int64)
    makespan = replay_rows(t, rows, waiting, stack, np.inf)
    critical = _critical_pairs(t, rows, pairs)
    excess = excess_of(t, rows, target)
    energy = weight_time * makespan + excess
    best_energy, best_makespan = energy, makespan
    best[:] = rows.ops
    ranks = len(rows.length)
    cooling = (cold / hot) ** (1.0 / max(1, steps))
    temperature = hot
    for _ in range(steps):
        temperature *= cooling
        if critical > 0 and uniform(random) < 0.5:
            k = int(uniform(random) * critical)
            r, p = pairs[k, 0], pairs[k, 1]
        else:
            r = int(uniform(random) * ranks)
            if rows.length[r] < 2:
                continue
            p = int(uniform(random) * (rows.length[r] - 1))
        a, b = rows.ops[r, p], rows.ops[r, p + 1]
        if not _may_swap(t, a, b) or (t.acquire[b] > 0.0 and rows.held[r, p] + t.acquire[b] > cap):
            continue
        if t.acquire[a] > 0.0 and rows.held[r, p] + t.acquire[b] - t.release[b] + t.acquire[a] > cap:
            continue
        changed = excess + _excess_change(t, rows, r, p, target)
        accept_below = energy - temperature * np.log(1.0 - uniform(random))
        allowed = min(limit, (accept_below - changed) / weight_time) if weight_time > 0.0 else limit
        if changed > accept_below or allowed <= 0.0:
            continue
        _swap(t, rows, r, p)
        trial = replay_rows(t, rows, waiting, stack, allowed + 1e-9)
        if trial == np.inf:
            _swap(t, rows, r, p)
            continue
        makespan, excess = trial, changed
        energy = weight_time * makespan + excess
        critical = _critical_pairs(t, rows, pairs)
        if energy < best_energy - 1e-9:
            best_energy, best_makespan = energy, makespan
            best[:] = rows.ops
            if weight_time == 0.0 and excess <= 1e-6:
                break
    return best_energy, best_makespan

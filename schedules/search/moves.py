"""Moves of one op within a row, compiled: whether one may be made, what it would bring, and making it.

A move takes the op at place `source` of a row and puts it at `target`; those between move up by one. An op never passes
one of its own chain or one that it waits for. An op that occupies several ranks trades places in all rows at once, and
so only with its neighbour.
"""

import numpy as np

from schedules.search.compiled import compiled
from schedules.search.layout import (
    ACQUIRE,
    AFTER,
    AFTER_END,
    BEFORE,
    BEFORE_END,
    CHAIN,
    DURATION,
    EPS,
    MODEL,
    PLACE,
    POSITION,
    RANK,
    RELEASE,
    SLOT,
    SLOT_END,
    START,
    TAIL,
)
from schedules.search.longest import refresh

Array = np.ndarray


@compiled
def may_trade(whole: Array, link: Array, slots: Array, rank: int, i: int, j: int, near: bool, apart: bool) -> bool:
    """Whether j, which stands after i, may come before it. `near`: they are neighbours; `apart`: models keep apart."""
    if whole[i, CHAIN] == whole[j, CHAIN] or (apart and whole[i, MODEL] != whole[j, MODEL]):
        return False
    for k in range(whole[i, AFTER], whole[i, AFTER_END]):
        if link[k] == j:
            return False
    if whole[i, SLOT_END] - whole[i, SLOT] == 1 or whole[j, SLOT_END] - whole[j, SLOT] == 1:
        return True
    for k in range(whole[i, SLOT], whole[i, SLOT_END]):
        for x in range(whole[j, SLOT], whole[j, SLOT_END]):
            if slots[k, RANK] == slots[x, RANK] != rank and (not near or slots[x, PLACE] - slots[k, PLACE] != 1):
                return False
    return True


@compiled
def is_legal(
    whole: Array, link: Array, slots: Array, rows: Array, rank: int, source: int, target: int, apart: bool
) -> bool:
    """Whether the op at `source` may pass all between; says nothing of longer ways round by other ranks."""
    i = rows[rank, source]
    near = abs(source - target) == 1
    for place in range(source + 1, target + 1):
        if not may_trade(whole, link, slots, rank, i, rows[rank, place], near, apart):
            return False
    for place in range(target, source):
        if not may_trade(whole, link, slots, rank, rows[rank, place], i, near, apart):
            return False
    return True


@compiled
def cannot_cycle(
    whole: Array, real: Array, link: Array, lag: Array, rows: Array, rank: int, source: int, target: int
) -> bool:
    """Sufficient for a move over several places: what is passed ends too early to wait for it by other ranks.

    The condition of Balas and Vazacopoulos (1998). Sure where every op takes time and occupies one rank; where one does
    not, making the move finds the circle.
    """
    i = rows[rank, source]
    bound = 0.0
    if source < target:
        for k in range(whole[i, AFTER], whole[i, AFTER_END]):
            j = link[k]
            bound = max(bound, lag[k] + real[j, DURATION] + real[j, TAIL])
        for place in range(source + 1, target + 1):
            j = rows[rank, place]
            if real[j, DURATION] + real[j, TAIL] < bound - EPS:
                return False
        return True
    for k in range(whole[i, BEFORE], whole[i, BEFORE_END]):
        j = link[k]
        bound = max(bound, real[j, START] + real[j, DURATION] + lag[k])
    for place in range(target, source):
        j = rows[rank, place]
        if real[j, START] + real[j, DURATION] < bound - EPS:
            return False
    return True


@compiled
def take_segment(rows: Array, segment: Array, rank: int, source: int, target: int) -> int:
    """Fill `segment` with the ops of the places concerned, in their sequence after the move; give their number."""
    count = abs(target - source)
    if source < target:
        segment[count] = rows[rank, source]
        for k in range(count):
            segment[k] = rows[rank, source + 1 + k]
    else:
        segment[0] = rows[rank, source]
        for k in range(count):
            segment[k + 1] = rows[rank, target + k]
    return count + 1


@compiled
def change_of_excess(
    real: Array, rows: Array, held: Array, segment: Array, count: int, rank: int, low: int, cap: float
) -> float:
    """Memory above the cap, over the forwards of the segment: after the move less before."""
    memory = held[rank, low]
    change = 0.0
    for k in range(count):
        i, j = segment[k], rows[rank, low + k]
        memory += real[i, ACQUIRE]
        if real[i, ACQUIRE] > 0.0 and memory > cap:
            change += memory - cap
        memory -= real[i, RELEASE]
        if real[j, ACQUIRE] > 0.0 and held[rank, low + k] + real[j, ACQUIRE] > cap:
            change -= held[rank, low + k] + real[j, ACQUIRE] - cap
    return change


@compiled
def longest_through(
    whole: Array,
    real: Array,
    link: Array,
    lag: Array,
    rows: Array,
    lengths: Array,
    segment: Array,
    ends: Array,
    count: int,
    rank: int,
    low: int,
) -> float:
    """The longest path through the moved ops after the move, other ranks' rows as they are (Taillard 1994).

    Where ops occupy one rank only and no path leads back, it is never below the longest path that comes, and for
    neighbours equal to it; the new makespan is at most the larger of this and the old one.
    """
    time = 0.0
    if low > 0:
        i = rows[rank, low - 1]
        time = real[i, START] + real[i, DURATION]
    for k in range(count):
        i = segment[k]
        for x in range(whole[i, BEFORE], whole[i, BEFORE_END]):
            j = link[x]
            time = max(time, real[j, START] + real[j, DURATION] + lag[x])
        time += real[i, DURATION]
        ends[k] = time
    rest = 0.0
    if low + count < lengths[rank]:
        i = rows[rank, low + count]
        rest = real[i, DURATION] + real[i, TAIL]
    longest = 0.0
    for k in range(count - 1, -1, -1):
        i = segment[k]
        for x in range(whole[i, AFTER], whole[i, AFTER_END]):
            j = link[x]
            rest = max(rest, lag[x] + real[j, DURATION] + real[j, TAIL])
        longest = max(longest, ends[k] + rest)
        rest += real[i, DURATION]
    return longest


@compiled
def make_move(
    whole: Array,
    real: Array,
    link: Array,
    lag: Array,
    slots: Array,
    rows: Array,
    lengths: Array,
    held: Array,
    sequence: Array,
    over: Array,
    cap: float,
    segment: Array,
    touched: Array,
    buffer: Array,
    dirty: Array,
    rank: int,
    source: int,
    target: int,
) -> bool:
    """Make a legal move and bring all arrays up to date; false, and nothing changed, where it closes a circle."""
    i = rows[rank, source]
    count = _shift_all(whole, real, slots, rows, lengths, held, over, cap, segment, touched, rank, source, target)
    if _resequence(whole, link, slots, rows, lengths, sequence, dirty, buffer, i, rank, source, target):
        refresh(whole, real, link, lag, slots, rows, lengths, sequence, touched, count, dirty)
        return True
    _shift_all(whole, real, slots, rows, lengths, held, over, cap, segment, touched, rank, target, source)
    return False


@compiled
def _shift_all(
    whole: Array,
    real: Array,
    slots: Array,
    rows: Array,
    lengths: Array,
    held: Array,
    over: Array,
    cap: float,
    segment: Array,
    touched: Array,
    rank: int,
    source: int,
    target: int,
) -> int:
    """Move in the row and, of neighbours that share further ranks, in theirs; the number of ops in `touched`."""
    i, j = rows[rank, source], rows[rank, target]
    count = _shift(whole, real, slots, rows, lengths, held, over, cap, segment, touched, 0, rank, source, target)
    if whole[i, SLOT_END] - whole[i, SLOT] > 1 and abs(source - target) == 1:
        for k in range(whole[i, SLOT], whole[i, SLOT_END]):
            for x in range(whole[j, SLOT], whole[j, SLOT_END]):
                r, a, b = slots[k, RANK], slots[k, PLACE], slots[x, PLACE]
                if r == slots[x, RANK] and r != rank:
                    count = _shift(whole, real, slots, rows, lengths, held, over, cap, segment, touched, count, r, a, b)
    return count


@compiled
def _shift(
    whole: Array,
    real: Array,
    slots: Array,
    rows: Array,
    lengths: Array,
    held: Array,
    over: Array,
    cap: float,
    segment: Array,
    touched: Array,
    found: int,
    rank: int,
    source: int,
    target: int,
) -> int:
    """Move within one row: rows, places, held memory, excess. Appends the ops whose neighbours changed to `touched`."""
    low = min(source, target)
    count = take_segment(rows, segment, rank, source, target)
    over[rank] += change_of_excess(real, rows, held, segment, count, rank, low, cap)
    memory = held[rank, low]
    for k in range(count):
        i = segment[k]
        rows[rank, low + k] = i
        held[rank, low + k] = memory
        memory += real[i, ACQUIRE] - real[i, RELEASE]
        x = whole[i, SLOT]
        while slots[x, RANK] != rank:
            x += 1
        slots[x, PLACE] = low + k
    for place in range(max(0, low - 1), min(lengths[rank], low + count + 1)):
        touched[found] = rows[rank, place]
        found += 1
    return found


@compiled
def _resequence(
    whole: Array,
    link: Array,
    slots: Array,
    rows: Array,
    lengths: Array,
    sequence: Array,
    marked: Array,
    buffer: Array,
    i: int,
    rank: int,
    source: int,
    target: int,
) -> bool:
    """Bring the sequence in line with rows in which op i has moved; false, and nothing changed, where it cannot be.

    Looks at the part of the sequence between op i and the ops it passed: what depends on i goes behind them with it
    (before them, where i moved to the front). `marked` is all zero before and after.
    """
    step = 1 if source < target else -1
    first = last = whole[i, POSITION]
    for place in range(min(source, target), max(source, target) + 1):
        last = max(last * step, whole[rows[rank, place], POSITION] * step) * step
    kept, taken, size = 0, 0, len(buffer)
    for x in range(first, last + step, step):
        j = sequence[x]
        if j == i or _depends(whole, link, slots, rows, lengths, marked, j, step):
            marked[j] = 1
            taken += 1
            buffer[size - taken] = j
        else:
            buffer[kept] = j
            kept += 1
    fits = not _depends(whole, link, slots, rows, lengths, marked, i, step)
    for k in range(taken):
        marked[buffer[size - 1 - k]] = 0
    if fits:
        for k in range(kept + taken):
            j = buffer[k] if k < kept else buffer[size - 1 - (k - kept)]
            sequence[first + step * k] = j
            whole[j, POSITION] = first + step * k
    return fits


@compiled
def _depends(
    whole: Array, link: Array, slots: Array, rows: Array, lengths: Array, marked: Array, i: int, step: int
) -> bool:
    """Whether what stands right before op i (right after it, where step is -1) is marked."""
    low, high = (BEFORE, BEFORE_END) if step > 0 else (AFTER, AFTER_END)
    for k in range(whole[i, low], whole[i, high]):
        if marked[link[k]]:
            return True
    for k in range(whole[i, SLOT], whole[i, SLOT_END]):
        r, place = slots[k, RANK], slots[k, PLACE] - step
        if 0 <= place < lengths[r] and marked[rows[r, place]]:
            return True
    return False

"""Tabu search over the rows, compiled: each step makes the best move that is not forbidden, better or not.

    score of a move = max(longest path through what it moves, goal) + weight * memory above the cap

Only two kinds of move can help, and only they are looked at: moves at either end of a run of ops without a gap on a
longest path (blocks: Nowicki and Smutnicki 1996, Balas and Vazacopoulos 1998), which can shorten it, and, where memory
is above the cap, moves that bring a backward before a forward. Memory may pass the cap on the way: its weight rises
while it does and falls while it does not. What a move reversed may not be turned back for some steps.
"""

import numpy as np

from schedules.search.compiled import compiled
from schedules.search.layout import (
    ACQUIRE,
    BEFORE,
    BEFORE_END,
    CHAIN,
    DURATION,
    EPS,
    PLACE,
    RANK,
    RELEASE,
    SLOT,
    SLOT_END,
    START,
)
from schedules.search.longest import makespan_of, settle
from schedules.search.moves import (
    cannot_cycle,
    change_of_excess,
    is_legal,
    longest_through,
    make_move,
    take_segment,
)
from schedules.search.random_numbers import uniform

Array = np.ndarray

FORBIDDEN = 1 << 16  # entries of the table of forbidden pairs; two pairs that share one forbid each other
_PATIENCE = 10
_CHANGE = 1.1
_FAR = 0.02  # share of those that are looked at for moves over more places
_SPAN = 4  # in reaches: how far a move for memory goes at most
_SAMPLES = 3  # forwards above the cap that are looked at in one step


@compiled
def _pair(i: int, j: int) -> int:
    return (i * 1000003 + j * 7919) & (FORBIDDEN - 1)


@compiled
def _longest_path(
    whole: Array,
    real: Array,
    link: Array,
    lag: Array,
    slots: Array,
    rows: Array,
    lengths: Array,
    makespan: float,
    path: Array,
    random: Array,
) -> int:
    """One of the longest paths, drawn at random, from its end; gives its number of ops."""
    i, ties = -1, 0
    for rank in range(len(lengths)):
        if lengths[rank] > 0:
            j = rows[rank, lengths[rank] - 1]
            if real[j, START] + real[j, DURATION] >= makespan - EPS:
                ties += 1
                if ties == 1 or uniform(random) * ties < 1.0:
                    i = j
    path[0] = i
    count = 1
    while real[i, START] > EPS:
        before, ties, start = -1, 0, real[i, START] - EPS
        for k in range(whole[i, BEFORE], whole[i, BEFORE_END]):
            j = link[k]
            if real[j, START] + real[j, DURATION] + lag[k] >= start:
                ties += 1
                if ties == 1 or uniform(random) * ties < 1.0:
                    before = j
        for k in range(whole[i, SLOT], whole[i, SLOT_END]):
            if slots[k, PLACE] > 0:
                j = rows[slots[k, RANK], slots[k, PLACE] - 1]
                if real[j, START] + real[j, DURATION] >= start:
                    ties += 1
                    if ties == 1 or uniform(random) * ties < 1.0:
                        before = j
        i = before
        path[count] = i
        count += 1
    return count


@compiled
def _slot_before(whole: Array, slots: Array, rows: Array, lengths: Array, i: int, j: int) -> int:
    """The slot of op i in whose row j stands right after it; -1 where there is none."""
    for k in range(whole[i, SLOT], whole[i, SLOT_END]):
        rank, place = slots[k, RANK], slots[k, PLACE] + 1
        if place < lengths[rank] and rows[rank, place] == j:
            return k
    return -1


@compiled
def _propose(moves: Array, count: int, rank: int, source: int, target: int) -> int:
    if count < len(moves):
        moves[count, 0], moves[count, 1], moves[count, 2] = rank, source, target
        return count + 1
    return count


@compiled
def _propose_at_blocks(
    whole: Array, slots: Array, rows: Array, lengths: Array, path: Array, steps: int, reach: int, moves: Array
) -> int:
    """Moves to and from the ends of the blocks of a path. Before the first block and after the last nothing is won."""
    count = 0
    x = steps - 1
    while x > 0:
        slot = _slot_before(whole, slots, rows, lengths, path[x], path[x - 1])
        if slot < 0:
            x -= 1
            continue
        rank, first = slots[slot, RANK], slots[slot, PLACE]
        y = x - 1
        while y > 0:
            slot = _slot_before(whole, slots, rows, lengths, path[y], path[y - 1])
            if slot < 0 or slots[slot, RANK] != rank:
                break
            y -= 1
        last = first + x - y
        for d in range(1, min(reach, last - first) + 1):
            if x < steps - 1:
                count = _propose(moves, count, rank, first + d, first)
                if d > 1:
                    count = _propose(moves, count, rank, first, first + d)
            if y > 0:
                count = _propose(moves, count, rank, last - d, last)
                if d > 1:
                    count = _propose(moves, count, rank, last, last - d)
        x = y
    return count


@compiled
def _has(values: Array, count: int, value: int) -> bool:
    for k in range(count):  # noqa: SIM110 (numba compiles no generator here)
        if values[k] == value:
            return True
    return False


@compiled
def _propose_for_memory(
    whole: Array,
    real: Array,
    rows: Array,
    lengths: Array,
    held: Array,
    over: Array,
    cap: float,
    reach: int,
    moves: Array,
    count: int,
    chains: Array,
    random: Array,
) -> int:
    """Moves that bring a forward above the cap, drawn at random, below it."""
    left = uniform(random) * over.sum()
    rank = 0
    while rank < len(lengths) - 1 and left >= over[rank]:
        left -= over[rank]
        rank += 1
    at, ties = -1, 0
    for place in range(lengths[rank]):
        taken = real[rows[rank, place], ACQUIRE]
        if taken > 0.0 and held[rank, place] + taken > cap + EPS:
            ties += 1
            if uniform(random) * ties < 1.0:
                at = place
    if at < 0:
        return count
    # The next two releases come before it or a neighbour, or these come after them.
    seen = 0
    for place in range(at + 1, min(lengths[rank], at + 2 * reach + 1)):
        if real[rows[rank, place], RELEASE] > 0.0:
            seen += 1
            for early in range(max(0, at - 2), at + 1):
                count = _propose(moves, count, rank, place, early)
                if real[rows[rank, early], ACQUIRE] > 0.0:
                    count = _propose(moves, count, rank, early, place)
            if seen == 2:
                break
    if uniform(random) >= _FAR:
        return count
    # Farther: the next release of every chain comes before it, or it comes after that release.
    seen = 0
    for place in range(at + 1, min(lengths[rank], at + _SPAN * reach)):
        i = rows[rank, place]
        if real[i, RELEASE] > 0.0 and not _has(chains, seen, whole[i, CHAIN]) and seen < len(chains):
            chains[seen] = whole[i, CHAIN]
            seen += 1
            count = _propose(moves, count, rank, place, at)
            count = _propose(moves, count, rank, at, place)
    # Or the last forward of another chain before it comes after it.
    seen = 0
    for place in range(at - 1, max(-1, at - _SPAN * reach), -1):
        i = rows[rank, place]
        if real[i, ACQUIRE] > 0.0 and not _has(chains, seen, whole[i, CHAIN]) and seen < len(chains):
            chains[seen] = whole[i, CHAIN]
            seen += 1
            count = _propose(moves, count, rank, place, at)
    return count


@compiled
def _is_forbidden(rows: Array, until: Array, step: int, rank: int, source: int, target: int) -> bool:
    i = rows[rank, source]
    for place in range(source + 1, target + 1):
        if until[_pair(rows[rank, place], i)] > step:
            return True
    for place in range(target, source):  # noqa: SIM110 (numba compiles no generator here)
        if until[_pair(i, rows[rank, place])] > step:
            return True
    return False


@compiled
def _forbid_return(rows: Array, until: Array, step: int, rank: int, source: int, target: int) -> None:
    i = rows[rank, source]
    for place in range(source + 1, target + 1):
        until[_pair(i, rows[rank, place])] = step
    for place in range(target, source):
        until[_pair(rows[rank, place], i)] = step


@compiled
def tabu_steps(
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
    best: Array,
    until: Array,
    random: Array,
    weight: Array,
    counts: Array,
    cap: float,
    goal: float,
    steps: int,
    tenure: int,
    reach: int,
    apart: bool,
) -> float:
    """Search from the present rows until an order within `cap` meets `goal`, at most `steps` moves.

    best: receives the rows of the shortest order within the cap that was met; the result is its makespan, infinite
    where none was. weight: (weight of memory, its least, its most). until: step up to which a pair is forbidden.
    counts: (steps so far in all calls, moves looked at); both are counted on.
    Long, because numba compiles one loop best.
    """
    size = len(whole) + 4 * len(lengths) + 8
    segment, touched, buffer = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(len(whole), np.int64)
    ends, dirty, path = np.zeros(size), np.zeros(len(whole), np.uint8), np.zeros(len(whole), np.int64)
    moves, chains = np.zeros((8 * reach * len(lengths) * 4, 3), np.int64), np.zeros(8, np.int64)
    makespan = settle(whole, real, link, lag, slots, rows, lengths, held, sequence, over, cap)
    excess, shortest, above, within = over.sum(), np.inf, 0, 0
    if excess <= EPS:
        shortest = makespan
        best[:] = rows
    for step in range(counts[0] + 1, counts[0] + steps + 1):
        if shortest <= goal + EPS:
            break
        counts[0] = step
        found = 0
        if makespan > goal + EPS:
            length = _longest_path(whole, real, link, lag, slots, rows, lengths, makespan, path, random)
            found = _propose_at_blocks(whole, slots, rows, lengths, path, length, reach, moves)
        if excess > EPS:
            for _ in range(_SAMPLES):
                found = _propose_for_memory(
                    whole, real, rows, lengths, held, over, cap, reach, moves, found, chains, random
                )
        chosen, lowest, ties = -1, np.inf, 0
        for k in range(found):
            rank, source, target = moves[k, 0], moves[k, 1], moves[k, 2]
            if not is_legal(whole, link, slots, rows, rank, source, target, apart):
                continue
            if abs(source - target) > 1 and not cannot_cycle(whole, real, link, lag, rows, rank, source, target):
                continue
            counts[1] += 1
            low, count = min(source, target), take_segment(rows, segment, rank, source, target)
            after = excess + change_of_excess(real, rows, held, segment, count, rank, low, cap)
            longest = longest_through(whole, real, link, lag, rows, lengths, segment, ends, count, rank, low)
            score = max(longest, goal) + weight[0] * max(0.0, after)
            if score > lowest + EPS:
                continue
            if _is_forbidden(rows, until, step, rank, source, target) and (after > EPS or longest >= shortest - EPS):
                continue
            if score < lowest - EPS:
                chosen, lowest, ties = k, score, 1
            else:
                ties += 1
                if uniform(random) * ties < 1.0:
                    chosen = k
        if chosen < 0:
            chosen = _propose_any(whole, link, slots, rows, lengths, moves, apart, random)
            if chosen < 0:
                break
        rank, source, target = moves[chosen, 0], moves[chosen, 1], moves[chosen, 2]
        _forbid_return(rows, until, step + tenure + int(uniform(random) * tenure), rank, source, target)
        if not make_move(
            whole, real, link, lag, slots, rows, lengths, held, sequence, over, cap,
            segment, touched, buffer, dirty, rank, source, target,
        ):  # fmt: skip
            continue
        makespan, excess = makespan_of(real, rows, lengths), over.sum()
        if excess > EPS:
            above, within = above + 1, 0
        else:
            above, within = 0, within + 1
            if makespan < shortest - EPS:
                shortest = makespan
                best[:] = rows
        if above == _PATIENCE:
            above, weight[0] = 0, min(weight[0] * _CHANGE, weight[2])
        if within == _PATIENCE:
            within, weight[0] = 0, max(weight[0] / _CHANGE, weight[1])
    return shortest


@compiled
def _propose_any(
    whole: Array, link: Array, slots: Array, rows: Array, lengths: Array, moves: Array, apart: bool, random: Array
) -> int:
    """Where every move is forbidden: two neighbours drawn at random; -1 where none could be found."""
    for _ in range(1000):
        rank = int(uniform(random) * len(lengths))
        place = int(uniform(random) * (lengths[rank] - 1))
        if place + 1 < lengths[rank] and is_legal(whole, link, slots, rows, rank, place, place + 1, apart):
            return _propose(moves, 0, rank, place, place + 1) - 1
    return -1

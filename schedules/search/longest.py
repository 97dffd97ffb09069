"""Longest paths through the present rows, compiled: settled anew, or brought up to date after one move.

    start(i) = max over what i waits for and its neighbours before it in its rows of (start + duration + lag)
    tail(i)  = max over what waits for i and its neighbours after it in its rows of (lag + duration + tail)

An op is on a longest path where start + duration + tail is the makespan.
"""

import numpy as np

from schedules.search.compiled import compiled
from schedules.search.layout import (
    ACQUIRE,
    AFTER,
    AFTER_END,
    BEFORE,
    BEFORE_END,
    DURATION,
    PLACE,
    POSITION,
    RANK,
    RELEASE,
    SLOT,
    SLOT_END,
    START,
    TAIL,
)

Array = np.ndarray


@compiled
def earliest_start(whole: Array, real: Array, link: Array, lag: Array, slots: Array, rows: Array, i: int) -> float:
    """When op i can start, by the starts of all that comes right before it."""
    time = 0.0
    for k in range(whole[i, BEFORE], whole[i, BEFORE_END]):
        j = link[k]
        time = max(time, real[j, START] + real[j, DURATION] + lag[k])
    for k in range(whole[i, SLOT], whole[i, SLOT_END]):
        if slots[k, PLACE] > 0:
            j = rows[slots[k, RANK], slots[k, PLACE] - 1]
            time = max(time, real[j, START] + real[j, DURATION])
    return time


@compiled
def longest_after(
    whole: Array, real: Array, link: Array, lag: Array, slots: Array, rows: Array, lengths: Array, i: int
) -> float:
    """The tail of op i, by the tails of all that comes right after it."""
    time = 0.0
    for k in range(whole[i, AFTER], whole[i, AFTER_END]):
        j = link[k]
        time = max(time, lag[k] + real[j, DURATION] + real[j, TAIL])
    for k in range(whole[i, SLOT], whole[i, SLOT_END]):
        rank, place = slots[k, RANK], slots[k, PLACE] + 1
        if place < lengths[rank]:
            j = rows[rank, place]
            time = max(time, real[j, DURATION] + real[j, TAIL])
    return time


@compiled
def makespan_of(real: Array, rows: Array, lengths: Array) -> float:
    """The end of the last op."""
    time = 0.0
    for rank in range(len(lengths)):
        if lengths[rank] > 0:
            i = rows[rank, lengths[rank] - 1]
            time = max(time, real[i, START] + real[i, DURATION])
    return time


@compiled
def settle(
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
) -> float:
    """Sequence, starts, tails, held memory and its excess over `cap`, all anew; the makespan, infinite at a cycle."""
    count = len(whole)
    waiting = np.zeros(count, np.int64)
    found = done = 0
    for i in range(count):
        waiting[i] = whole[i, BEFORE_END] - whole[i, BEFORE]
        for k in range(whole[i, SLOT], whole[i, SLOT_END]):
            waiting[i] += slots[k, PLACE] > 0
        if waiting[i] == 0:
            sequence[found] = i
            found += 1
    while done < found:
        i = sequence[done]
        done += 1
        real[i, START] = earliest_start(whole, real, link, lag, slots, rows, i)
        for k in range(whole[i, AFTER], whole[i, AFTER_END]):
            j = link[k]
            waiting[j] -= 1
            if waiting[j] == 0:
                sequence[found] = j
                found += 1
        for k in range(whole[i, SLOT], whole[i, SLOT_END]):
            rank, place = slots[k, RANK], slots[k, PLACE] + 1
            if place < lengths[rank]:
                j = rows[rank, place]
                waiting[j] -= 1
                if waiting[j] == 0:
                    sequence[found] = j
                    found += 1
    if done < count:
        return np.inf
    # Sorted by start, what a move has to look through stays short; the stable sort keeps ops of no duration in turn.
    sequence[:] = sequence[np.argsort(real[sequence, START], kind="mergesort")]
    for x in range(count - 1, -1, -1):
        i = sequence[x]
        whole[i, POSITION] = x
        real[i, TAIL] = longest_after(whole, real, link, lag, slots, rows, lengths, i)
    for rank in range(len(lengths)):
        memory = over[rank] = 0.0
        for place in range(lengths[rank]):
            i = rows[rank, place]
            held[rank, place] = memory
            memory += real[i, ACQUIRE]
            if real[i, ACQUIRE] > 0.0 and memory > cap:
                over[rank] += memory - cap
            memory -= real[i, RELEASE]
    return makespan_of(real, rows, lengths)


@compiled
def refresh(
    whole: Array,
    real: Array,
    link: Array,
    lag: Array,
    slots: Array,
    rows: Array,
    lengths: Array,
    sequence: Array,
    touched: Array,
    count: int,
    dirty: Array,
) -> None:
    """Starts and tails after a move: from the `count` ops in `touched` on, as far as anything changes.

    `dirty` is all zero before and after. The sequence must hold for the present rows already.
    """
    pending = 0
    x = len(sequence)
    for k in range(count):
        i = touched[k]
        if not dirty[i]:
            dirty[i] = 1
            pending += 1
            x = min(x, whole[i, POSITION])
    while pending > 0:
        i = sequence[x]
        x += 1
        if not dirty[i]:
            continue
        dirty[i] = 0
        pending -= 1
        time = earliest_start(whole, real, link, lag, slots, rows, i)
        if time == real[i, START]:
            continue
        real[i, START] = time
        for k in range(whole[i, AFTER], whole[i, AFTER_END]):
            pending += 1 - dirty[link[k]]
            dirty[link[k]] = 1
        for k in range(whole[i, SLOT], whole[i, SLOT_END]):
            rank, place = slots[k, RANK], slots[k, PLACE] + 1
            if place < lengths[rank]:
                pending += 1 - dirty[rows[rank, place]]
                dirty[rows[rank, place]] = 1
    x = -1
    for k in range(count):
        i = touched[k]
        if not dirty[i]:
            dirty[i] = 1
            pending += 1
            x = max(x, whole[i, POSITION])
    while pending > 0:
        i = sequence[x]
        x -= 1
        if not dirty[i]:
            continue
        dirty[i] = 0
        pending -= 1
        time = longest_after(whole, real, link, lag, slots, rows, lengths, i)
        if time == real[i, TAIL]:
            continue
        real[i, TAIL] = time
        for k in range(whole[i, BEFORE], whole[i, BEFORE_END]):
            pending += 1 - dirty[link[k]]
            dirty[link[k]] = 1
        for k in range(whole[i, SLOT], whole[i, SLOT_END]):
            rank, place = slots[k, RANK], slots[k, PLACE] - 1
            if place >= 0:
                pending += 1 - dirty[rows[rank, place]]
                dirty[rows[rank, place]] = 1

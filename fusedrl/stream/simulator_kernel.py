"""The simulator's loops, compiled: rows that are decoded, units on whoever is idle, scores.

Legend: N samples, I instances, R rows, U units. Times are milliseconds.
"""

import heapq

import numpy as np
from numba import njit

Array = np.ndarray


@njit(cache=True, nogil=True)
def generate(
    length_N: Array,
    prompt_N: Array,
    source_N: Array,
    share_I: Array,
    step_R: Array,
    prefill_ms: float,
    link_ms: float,
    token_ms: float,
    message_ms: float,
    r_t: int,
    m: int,
    destination_rows: int,
) -> tuple[Array, Array, int]:
    """(finish_N, free_I, moved): when each response is whole, when each instance has no more of them.

    Long, since numba compiles loops over plain arrays best: seat, then finish after finish, and once the migration.
    """
    count, instances, rows = len(length_N), len(share_I), len(step_R) - 1
    finish_N, last_N = np.zeros(count), np.zeros(count, dtype=np.int64)  # last_N: the step that ends a sample
    time_I, steps_I = np.zeros(instances), np.zeros(instances, dtype=np.int64)
    rows_I, live_IR = np.zeros(instances, dtype=np.int64), np.zeros((instances, count), dtype=np.int64)
    queue, queued, head = np.zeros(count, dtype=np.int64), 0, 0
    start = 0
    for i in range(instances):
        for j in range(start, start + share_I[i]):
            if j - start < rows:
                _seat(i, j, 1, 0, length_N, last_N, steps_I, rows_I, live_IR)
                if j == start or source_N[j] != source_N[j - 1]:
                    time_I[i] += prompt_N[j] * prefill_ms
            else:
                queue[queued] = j
                queued += 1
        start += share_I[i]
    unfinished, moved, migrated = count, 0, False
    while unfinished:
        i, at = _next(time_I, steps_I, rows_I, live_IR, last_N, step_R)
        unfinished -= _finish(i, at, time_I, steps_I, rows_I, live_IR, last_N, finish_N, step_R)
        while head < queued and rows_I[i] < rows:
            j = queue[head]
            head += 1
            time_I[i] += prompt_N[j] * prefill_ms
            _seat(i, j, 1, 0, length_N, last_N, steps_I, rows_I, live_IR)
        while not migrated and head == queued and 0 < unfinished <= r_t:
            to_N = _plan(rows_I, live_IR, count, m, min(destination_rows, rows))
            if to_N.max() < 0:
                break
            left, moved = _migrate(
                at, to_N, length_N, prompt_N, last_N, finish_N, time_I, steps_I, rows_I, live_IR, step_R,
                prefill_ms, link_ms, token_ms, message_ms,
            )  # fmt: skip
            unfinished -= left
            migrated = moved > 0  # or they had all finished first: once more
            at += message_ms
    return finish_N, time_I, moved


@njit(cache=True, nogil=True)
def _seat(
    i: int,
    j: int,
    gained: int,
    done: int,
    length_N: Array,
    last_N: Array,
    steps_I: Array,
    rows_I: Array,
    live_IR: Array,
) -> None:
    """Give sample j, which has `done` tokens, a row of instance i; a prefill gains it a token."""
    last_N[j] = steps_I[i] + max(length_N[j] - done - gained, 0)
    live_IR[i, rows_I[i]] = j
    rows_I[i] += 1


@njit(cache=True, nogil=True)
def _ending(i: int, rows_I: Array, live_IR: Array, last_N: Array) -> int:
    """The step at which the next sample of instance i ends."""
    first = last_N[live_IR[i, 0]]
    for r in range(1, rows_I[i]):
        first = min(first, last_N[live_IR[i, r]])
    return first


@njit(cache=True, nogil=True)
def _next(
    time_I: Array, steps_I: Array, rows_I: Array, live_IR: Array, last_N: Array, step_R: Array
) -> tuple[int, float]:
    """(instance, time) of the next sample that ends anywhere."""
    found, soonest = -1, np.inf
    for i in range(len(rows_I)):
        if rows_I[i]:
            at = time_I[i] + (_ending(i, rows_I, live_IR, last_N) - steps_I[i]) * step_R[rows_I[i]]
            if at < soonest:
                found, soonest = i, at
    return found, soonest


@njit(cache=True, nogil=True)
def _finish(
    i: int,
    at: float,
    time_I: Array,
    steps_I: Array,
    rows_I: Array,
    live_IR: Array,
    last_N: Array,
    finish_N: Array,
    step_R: Array,
) -> int:
    """Advance instance i to its next ending; how many samples end there. The others keep their order."""
    steps_I[i] = _ending(i, rows_I, live_IR, last_N)
    time_I[i] = at
    kept = 0
    for r in range(rows_I[i]):
        j = live_IR[i, r]
        if last_N[j] <= steps_I[i]:
            finish_N[j] = at
        else:
            live_IR[i, kept] = j
            kept += 1
    ended = rows_I[i] - kept
    rows_I[i] = kept
    return ended


@njit(cache=True, nogil=True)
def _advance(
    i: int,
    until: float,
    time_I: Array,
    steps_I: Array,
    rows_I: Array,
    live_IR: Array,
    last_N: Array,
    finish_N: Array,
    step_R: Array,
) -> int:
    """Let instance i decode up to its first step boundary at or after `until`; how many samples end on the way."""
    ended = 0
    while rows_I[i] and time_I[i] < until:
        steps = max(1, int(np.ceil((until - time_I[i]) / step_R[rows_I[i]] - 1e-9)))
        ending = _ending(i, rows_I, live_IR, last_N) - steps_I[i]
        if ending <= steps:
            at = time_I[i] + ending * step_R[rows_I[i]]
            ended += _finish(i, at, time_I, steps_I, rows_I, live_IR, last_N, finish_N, step_R)
        else:
            time_I[i] += steps * step_R[rows_I[i]]
            steps_I[i] += steps
    return ended


@njit(cache=True, nogil=True)
def _plan(rows_I: Array, live_IR: Array, count: int, m: int, capacity: int) -> Array:
    """Where each sample goes, -1 where it stays: migration.plan_moves on arrays."""
    instances = len(rows_I)
    ranked = sorted([(-rows_I[i], i) for i in range(instances) if rows_I[i]])
    total, stay = rows_I.sum(), len(ranked)
    for keep in range(max(m, 1), len(ranked)):
        held = 0
        for k in range(keep):
            held += max(capacity, -ranked[k][0])
        if held >= total:
            stay = keep
            break
    load, stays = rows_I.copy(), np.zeros(instances, dtype=np.bool_)
    for k in range(stay):
        stays[ranked[k][1]] = True
    to_N = np.full(count, -1, dtype=np.int64)
    for i in range(instances):
        if not stays[i]:
            for r in range(rows_I[i]):
                best = -1
                for d in range(instances):
                    if stays[d] and (best < 0 or load[d] < load[best]):
                        best = d
                load[best] += 1
                to_N[live_IR[i, r]] = best
    return to_N


@njit(cache=True, nogil=True)
def _migrate(
    at: float,
    to_N: Array,
    length_N: Array,
    prompt_N: Array,
    last_N: Array,
    finish_N: Array,
    time_I: Array,
    steps_I: Array,
    rows_I: Array,
    live_IR: Array,
    step_R: Array,
    prefill_ms: float,
    link_ms: float,
    token_ms: float,
    message_ms: float,
) -> tuple[int, int]:
    """Sources give out at their next step boundary, destinations take in at theirs; (samples ended, samples moved)."""
    instances, ended, moved = len(rows_I), 0, 0
    arrival_I, cost_I = np.zeros(instances), np.zeros(instances)
    moving = [(0, 0, 0)]
    moving.pop()
    for i in range(instances):
        if not rows_I[i] or to_N[live_IR[i, 0]] < 0:
            continue
        ended += _advance(i, at + message_ms, time_I, steps_I, rows_I, live_IR, last_N, finish_N, step_R)
        for r in range(rows_I[i]):
            j = live_IR[i, r]
            done = length_N[j] - (last_N[j] - steps_I[i])
            tokens = prompt_N[j] + done
            prefill, transfer = tokens * prefill_ms, link_ms + tokens * token_ms
            d = to_N[j]
            cost_I[d] += min(prefill, transfer)
            arrival_I[d] = max(arrival_I[d], time_I[i] + message_ms)
            moving.append((j, done, 0 if transfer < prefill else 1))
        rows_I[i] = 0
    for d in range(instances):
        if arrival_I[d]:
            ended += _advance(d, arrival_I[d], time_I, steps_I, rows_I, live_IR, last_N, finish_N, step_R)
            time_I[d] = max(time_I[d], arrival_I[d]) + cost_I[d]
    for j, done, gained in moving:
        _seat(to_N[j], j, gained, done, length_N, last_N, steps_I, rows_I, live_IR)
        moved += 1
    return ended, moved


@njit(cache=True, nogil=True)
def infer(ready_U: Array, tokens_U: Array, cost_U: Array, free_I: Array, message_ms: float, chunk_tokens: int) -> float:
    """When the last unit is done. Units come in order of readiness; each idle instance takes the largest."""
    free_I = free_I.copy()
    heap = [(0, 0)]
    heap.pop()
    seen, waiting, left, end = 0, 0, len(ready_U), 0.0
    while left:
        i = int(np.argmin(free_I))
        now = free_I[i]
        while seen < len(ready_U) and ready_U[seen] <= now:
            heapq.heappush(heap, (-int(tokens_U[seen]), seen))
            waiting += int(tokens_U[seen])
            seen += 1
        if not heap:
            free_I[i] = ready_U[seen]
            continue
        wanted, held, cost = min(chunk_tokens, waiting // (2 * len(free_I))), 0, message_ms
        first = True
        while heap and (first or held < wanted):
            size, unit = heapq.heappop(heap)
            held -= size
            cost += cost_U[unit]
            left -= 1
            first = False
        waiting -= held
        free_I[i] = now + cost
        end = max(end, free_I[i])
    return end


@njit(cache=True, nogil=True)
def score(ready_N: Array, score_ms: float, workers: int) -> float:
    """When the last sample has its score: samples in order of readiness, each to the worker that is free first."""
    done_N = np.zeros(len(ready_N))
    for n in range(len(ready_N)):
        free = done_N[n - workers] if n >= workers else 0.0
        done_N[n] = max(ready_N[n], free) + score_ms
    return done_N.max() if len(done_N) else 0.0

"""The compiled plan is the coordinator's, units go to whoever is idle, and scores to whichever worker is free."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedrl.stream.migration import plan_moves
from fusedrl.stream.simulator_kernel import _plan, generate, infer, score


@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=6), m=st.integers(1, 6), rows=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_the_plan_is_the_coordinators(counts: list[int], m: int, rows: int) -> None:
    rows_I, live_IR = np.array(counts), np.zeros((len(counts), max(sum(counts), 1)), dtype=np.int64)
    samples, start = {}, 0
    for i, count in enumerate(counts):
        samples[i] = list(range(start, start + count))
        live_IR[i, :count] = samples[i]
        start += count
    to_N = _plan(rows_I, live_IR, start, m, rows)
    wanted = np.full(start, -1)
    for move in plan_moves(samples, keep=m, rows=rows):
        wanted[list(move.sample_ids)] = move.destination
    assert np.array_equal(to_N, wanted)


def test_compiled_kernel_takes_no_lengths() -> None:
    empty = np.zeros(0, dtype=np.int64)
    finish_N, free_I, moved = generate(
        empty, empty, empty, np.zeros(2, dtype=np.int64), np.ones(3), 0.1, np.inf, 0.0, 0.0, 5, 1, 3
    )
    assert len(finish_N) == 0
    assert free_I.tolist() == [0, 0]
    assert moved == 0


def read(ready: list[float], tokens: list[int], free: list[float], *, message_ms: float = 0.0, chunk: int = 1) -> float:
    arrays = (
        np.array(ready, dtype=float),
        np.array(tokens),
        np.array(tokens, dtype=float),
        np.array(free, dtype=float),
    )
    return float(infer(*arrays, message_ms, chunk))


def test_the_largest_ready_unit_goes_to_the_first_idle_instance() -> None:
    assert read([0, 0, 0], [1, 2, 3], [0, 0]) == 3  # 3 | 2 + 1
    assert read([0, 0, 0], [1, 2, 3], [0, 5]) == 6  # the second is busy until all is done
    assert read([0, 4], [1, 2], [0, 0]) == 6  # not ready before 4


def test_an_answer_costs_once_for_each_chunk() -> None:
    assert read([0] * 4, [1] * 4, [0], message_ms=0.5) == 4 + 4 * 0.5
    # of 8 tokens a half are handed out, of 4 two, then one by one
    assert read([0] * 8, [1] * 8, [0], message_ms=0.5, chunk=100) == pytest.approx(8 + 0.5 * 4)


@pytest.mark.parametrize(("workers", "end"), [(1, 12), (2, 8), (4, 8)])
def test_scores_queue_for_their_workers(workers: int, end: float) -> None:
    assert score(np.array([0.0, 0.0, 0.0, 6.0]), 2.0 if workers > 1 else 3.0, workers) == end
    assert score(np.zeros(0), 2.0, workers) == 0


def test_scores_of_samples_that_end_together_take_turns() -> None:
    assert score(np.zeros(10), 2.0, 4) == 6  # 4, 4 and 2

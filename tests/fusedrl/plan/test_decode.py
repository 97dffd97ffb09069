"""The replayed engine against a step-by-step one."""

import numpy as np
import pytest

from fusedrl.plan.decode import StepTimes, replay


def stepwise(times: StepTimes, lengths: list[int], *, rows: int, prompt: int) -> tuple[float, float]:
    """Each step by itself, contexts in the middle of it."""
    waiting, seated, seconds, peak = lengths[:], [], 0.0, 0.0
    while waiting or seated:
        while waiting and len(seated) < rows:
            seated.append([waiting.pop(0), 0])
        context = sum(prompt + done + 0.5 for _, done in seated) / len(seated)
        seconds += times.seconds(len(seated), context)
        seated = [[length, done + 1] for length, done in seated]
        peak = max(peak, sum(prompt + done for _, done in seated))
        seated = [row for row in seated if row[1] < row[0]]
    return seconds, peak


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_replay_equals_step_by_step(rows: int) -> None:
    lengths = np.random.default_rng(rows).integers(1, 30, 8)
    times = StepTimes(np.linspace(1, 2, 9), np.linspace(0.01, 0.05, 9))
    seconds, peak = replay(times, lengths, rows=rows, prompt=5)
    expected = stepwise(times, lengths.tolist(), rows=rows, prompt=5)
    assert seconds == pytest.approx(expected[0], rel=1e-12)
    assert peak == expected[1]


def test_a_long_tail_costs_steps_of_few_rows() -> None:
    times = StepTimes(np.array([0.0, 1.0, 1.5]), np.zeros(3))
    assert replay(times, np.array([10, 2]), rows=2, prompt=1)[0] == 2 * 1.5 + 8 * 1.0

"""Scores come as they are ready; a call that fails costs its own sample, and says so."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardResult, RewardSample, count
from fusedrl.stream.messages import SampleState
from fusedrl.stream.scoring import RewardStream

REWARD = """
import time
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    number = int(solution_str)
    if number == 1:
        time.sleep(60)
    if number == 2:
        raise RuntimeError("no")
    return {3: float("nan"), 4: "text"}.get(number, float(number))
"""


def sample(sample_id: int) -> SampleState:
    return SampleState(sample_id, b"", b"", "stop")


def ask(state: SampleState) -> RewardSample:
    return RewardSample(f"prompt-{state.sample_id}", "test", str(state.sample_id))


class Reports:
    def __init__(self) -> None:
        self.scores: dict[int, float] = {}
        self.broken: list[str] = []
        self._news = threading.Condition()

    def report(self, sample_id: int, score: float) -> None:
        with self._news:
            self.scores[sample_id] = score
            self._news.notify_all()

    def tell(self, reason: str) -> None:
        with self._news:
            self.broken.append(reason)
            self._news.notify_all()

    def wait(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.scores) + len(self.broken) >= count, timeout=60)


def test_what_hangs_throws_or_gives_no_number_costs_its_sample_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "reward.py"
    path.write_text(REWARD)
    runners = [RewardRunner(path, workers=1, timeout=0.5, default_score=-7.0) for _ in range(2)]
    reports, stream = Reports(), RewardStream(runners, ask=ask)
    stream.start(reports.report, reports.tell)
    for sample_id in (1, 2, 3, 4, 5, 6):
        stream.submit(sample(sample_id))
    reports.wait(6)
    stream.stop()
    for runner in runners:
        runner.close()
    assert reports.scores == {1: -7.0, 2: -7.0, 3: -7.0, 4: -7.0, 5: 5.0, 6: 6.0}
    assert count(stream.results.values()) | {"ok": 0} == {"ok": 0, "error": 1, "invalid": 2, "timeout": 1, "died": 0}
    assert stream.results[5].ok
    for sample_id in (1, 2, 3, 4):
        assert f"prompt-{sample_id}" in caplog.text


class Slow:
    """Sample 0 takes its time."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def score(self, samples: Sequence[RewardSample]) -> list[RewardResult]:
        if samples[0].solution_str == "0":
            self.go.wait(60)
        return [RewardResult(each.sample_id, 1.0) for each in samples]


def test_a_slow_sample_holds_up_nobody_but_itself() -> None:
    slow, reports = Slow(), Reports()
    stream = RewardStream([slow, slow], ask=ask)
    stream.start(reports.report, reports.tell)
    for sample_id in range(4):
        stream.submit(sample(sample_id))
    reports.wait(3)
    assert sorted(reports.scores) == [1, 2, 3]
    slow.go.set()
    reports.wait(4)
    stream.stop()


def test_a_score_that_comes_after_the_step_is_not_reported() -> None:
    slow, reports = Slow(), Reports()
    stream = RewardStream([slow], ask=ask)
    stream.start(reports.report, reports.tell)
    stream.submit(sample(0))
    time.sleep(0.05)
    stream.stop()
    stream.start(Reports().report, reports.tell)
    slow.go.set()
    time.sleep(0.05)
    stream.stop()
    assert not reports.scores


class Broken:
    def score(self, samples: Sequence[RewardSample]) -> list[RewardResult]:
        raise ValueError("the reward runner is closed")


def test_a_reward_function_that_is_gone_is_told_instead_of_waited_for() -> None:
    reports = Reports()
    stream = RewardStream([Broken()], ask=ask)
    stream.start(reports.report, reports.tell)
    stream.submit(sample(3))
    reports.wait(1)
    assert reports.broken == ["no score of sample 3: the reward runner is closed"]


def test_no_worker_is_refused() -> None:
    with pytest.raises(ValueError, match="num_workers=0"):
        RewardStream([], ask=ask)


def test_calls_are_timed_each_by_itself() -> None:
    class Instant:
        def score(self, samples: Sequence[RewardSample]) -> list[RewardResult]:
            return [RewardResult(each.sample_id, 1.0) for each in samples]

    ticks = iter(range(100))
    reports, stream = Reports(), RewardStream([Instant()], ask=ask, clock=lambda: 0.25 * next(ticks))
    assert stream.workers == 1
    for step in (1, 2):
        stream.start(reports.report, reports.tell)
        for sample_id in (10 * step, 10 * step + 1, 10 * step + 2):
            stream.submit(sample(sample_id))
        reports.wait(3 * step)  # a call is counted before it is told
        stream.stop()
    calls = stream.times.sums["score", 0]
    assert (calls.count, calls.ms) == (6, 6 * 250.0)

"""Scores of samples as they finish: the reward function beside the stream, in worker processes and one thread each.

    submit(sample) returns at once;  report(sample_id, score) is called from a thread when the score is there

Each thread owns one worker process (a RewardRunner of one) and gives it one sample at a time, so a call that hangs
holds up nobody but itself until it is killed. What hangs, throws or gives no number gets the configured score, is
counted and is logged with its prompt's id (fusedrl.rewards).
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from fusedrl.rewards.sample import RewardResult, RewardSample
from fusedrl.rollout.step_times import StepTimes
from fusedrl.stream.messages import SampleState

Report = Callable[[int, float], None]
logger = logging.getLogger(__name__)


class Scorer(Protocol):
    """Scores finished samples in the background."""

    def start(self, report: Report, broken: Callable[[str], None]) -> None:
        """Before the first sample of a step: where scores go, and where to tell that there will be none."""

    def submit(self, sample: SampleState) -> None: ...

    def stop(self) -> None:
        """After a step: nothing is reported any more."""


class Scores(Protocol):
    """What a thread asks: one RewardResult a sample, in order (RewardRunner)."""

    def score(self, samples: Sequence[RewardSample]) -> list[RewardResult]: ...


class RewardStream:
    """A Scorer over runners of one worker each. `ask` makes the reward function's question of a finished sample.

    times: of the calls, as long as they took on the `clock`.
    """

    def __init__(
        self,
        runners: Sequence[Scores],
        *,
        ask: Callable[[SampleState], RewardSample],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if not runners:
            raise ValueError("custom_reward_function.num_workers=0: a stream of samples needs a worker")
        self._ask, self._runners, self._clock = ask, runners, clock
        self.times = StepTimes()
        self._adding = threading.Lock()
        self.results: dict[int, RewardResult] = {}
        self._queue: queue.SimpleQueue[SampleState | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._report: Report | None = None

    @property
    def workers(self) -> int:
        return len(self._runners)

    def start(self, report: Report, broken: Callable[[str], None]) -> None:
        self.results = {}
        self._queue, self._report = queue.SimpleQueue(), report
        self._threads = [
            threading.Thread(target=self._work, args=(runner, self._queue, report, broken), daemon=True)
            for runner in self._runners
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, sample: SampleState) -> None:
        self._queue.put(sample)

    def stop(self) -> None:
        self._report = None
        for _ in self._threads:
            self._queue.put(None)
        self._threads = []

    def _work(
        self,
        runner: Scores,
        samples: "queue.SimpleQueue[SampleState | None]",
        report: Report,
        broken: Callable[[str], None],
    ) -> None:
        while (sample := samples.get()) is not None:
            began = self._clock()
            try:
                result = runner.score([self._ask(sample)])[0]
            except Exception as error:  # the function cannot be loaded any more, or a sample cannot be sent to it
                logger.exception("no score of sample %d", sample.sample_id)
                broken(f"no score of sample {sample.sample_id}: {error}")
                return
            with self._adding:
                self.times.scored(ms=1e3 * (self._clock() - began))
            if self._report is not report:  # the step ended without this score
                return
            self.results[sample.sample_id] = result
            report(sample.sample_id, result.score)

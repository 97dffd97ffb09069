"""A pool of worker processes that score samples with a user's function, whatever that function does.

    with RewardRunner("reward.py", name="compute_score", workers=4, timeout=10.0) as runner:
        results = runner.score(samples)            # one RewardResult per sample, in the samples' order

A sample whose call hangs beyond `timeout` seconds costs its worker: it is killed with all it started and replaced, the
samples behind it go to others. A call that hangs, raises, crashes or returns no finite number yields `default_score`,
is counted in `totals` and logged with the sample's id. Nothing of that stops a run; only a function that cannot be
loaded does (RewardFunctionError), at construction.
"""

import contextlib
import logging
import selectors
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from fusedrl.rewards.function import KEY, RewardFunctionError, fits_float32
from fusedrl.rewards.process import MalformedMessage, WorkerProcess
from fusedrl.rewards.sample import STATUSES, RewardResult, RewardSample
from fusedrl.rewards.source import Source
from fusedrl.rewards.wire import pack

logger = logging.getLogger(__name__)
LOGGED_PER_CALL = 20  # kinds of failure named in the log; the rest of a call's are summed up in one line
LARGEST_CHUNK = 64  # samples of one message


class RewardRunner:
    """See the module's docstring. Not for use after `close`; calls from several threads take turns."""

    def __init__(
        self,
        path: str | Path,
        *,
        name: str = "compute_score",
        weights: Mapping[str, float] | None = None,
        retries: int = 2,
        workers: int = 2,
        timeout: float = 10.0,
        default_score: float = 0.0,
        start_timeout: float = 120.0,
    ) -> None:
        if workers < 1:
            raise ValueError(f"{KEY}.num_workers is {workers}: make it at least 1")
        if not timeout > 0 or not start_timeout > 0:
            raise ValueError(f"{KEY}.timeout_s is {timeout} (start {start_timeout}): make it positive")
        if not fits_float32(default_score):
            raise ValueError(f"{KEY}.default_score is {default_score}: make it finite, within float32")
        self._source = Source(str(path), name, weights or {}, retries).checked()
        self._timeout, self._start_timeout, self._default = timeout, start_timeout, default_score
        self._lock = threading.Lock()
        self.totals: Counter[str] = Counter(dict.fromkeys(STATUSES, 0))
        self._workers: list[WorkerProcess] = []
        self._finalizer = weakref.finalize(self, _kill_all, self._workers)  # at garbage collection or exit, too
        with self._closed_on_error():
            for _ in range(workers):
                self._workers.append(self._start())
            while not all(worker.ready for worker in self._workers):
                self._turn(_Call([], []))

    def score(self, samples: Sequence[RewardSample]) -> list[RewardResult]:
        """Results in the order of `samples`. Raises ValueError for a sample that cannot be sent to another process."""
        if not self._finalizer.alive:
            raise RuntimeError("the reward runner is closed")
        call = _Call(samples, [_packed(sample) for sample in samples])
        with self._lock, self._closed_on_error():
            while call.unfinished:
                self._hand_out(call)
                self._turn(call)
        results = call.finished()
        self.totals.update(result.status for result in results)
        self._log_failures(results)
        return results

    def close(self) -> None:
        """Kill all workers and what they started. Safe to call twice."""
        self._finalizer()

    def __enter__(self) -> "RewardRunner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """Workers in the middle of an aborted call would answer the next one."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _start(self) -> WorkerProcess:
        return WorkerProcess(self._source, limit=self._timeout)

    def _hand_out(self, call: "_Call") -> None:
        """Chunks to idle workers, smaller towards the end so that all finish at about the same time."""
        for worker in self._workers:
            if worker.ready and not worker.working and call.pending:
                size = max(1, min(LARGEST_CHUNK, len(call.pending) // (2 * len(self._workers))))
                indices = [call.pending.popleft() for _ in range(size)]
                worker.send(indices, packed=[call.packed[i] for i in indices])

    def _turn(self, call: "_Call") -> None:
        """Wait for news or for the next limit, then take answers and replace the workers that were lost."""
        self._wait()
        for seat, worker in enumerate(self._workers):
            loss = self._news(worker, call)
            if loss is not None:
                self._workers[seat] = self._replace(worker, call, loss=loss)

    def _wait(self) -> None:
        now = time.monotonic()
        limits = [worker.since + self._limit(worker) for worker in self._workers if worker.working or not worker.ready]
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(worker.answers, selectors.EVENT_READ)
                if worker.has_unsent:
                    selector.register(worker.requests, selectors.EVENT_WRITE)
            selector.select(max(0.0, min(limits) - now) if limits else None)

    def _limit(self, worker: WorkerProcess) -> float:
        return self._timeout if worker.ready else self._start_timeout

    def _news(self, worker: WorkerProcess, call: "_Call") -> str | None:
        """Take what the worker sent; "died" or "timeout" if it is lost."""
        worker.flush()
        try:
            messages, alive = worker.receive()
            for message in messages:
                self._take(worker, message, call)
        except MalformedMessage:
            return "died"
        if not alive:
            return "died"
        busy = worker.working or not worker.ready
        return "timeout" if busy and time.monotonic() - worker.since > self._limit(worker) else None

    def _take(self, worker: WorkerProcess, message: Any, call: "_Call") -> None:
        if not worker.ready:
            status, text = worker.read_greeting(message)
            if status != "ready":
                raise RewardFunctionError(text)
            worker.ready = True
            return
        status, score, detail, extra = worker.read_answer(message)
        self._settle(call, worker.working.popleft(), status=status, score=score, detail=detail, extra=extra)

    def _replace(self, worker: WorkerProcess, call: "_Call", *, loss: str) -> WorkerProcess:
        ending = worker.kill()
        if not worker.ready:
            what = "was not ready" if loss == "timeout" else f"ended ({ending})"
            raise RewardFunctionError(
                f"{KEY}.path={self._source.path}, name={self._source.name}: the worker {what} "
                f"{time.monotonic() - worker.since:.1f} s after its start, before or while importing the file"
            )
        if worker.working:
            detail = f"no answer in {self._timeout} s" if loss == "timeout" else f"the worker ended: {ending}"
            self._settle(call, worker.working.popleft(), status=loss, score=0.0, detail=detail, extra={})
            call.pending.extendleft(reversed(worker.working))
        return self._start()

    def _settle(
        self, call: "_Call", index: int, *, status: str, score: float, detail: str, extra: dict[str, Any]
    ) -> None:
        score = score if status == "ok" else self._default
        call.results[index] = RewardResult(call.samples[index].sample_id, score, status, detail, extra)
        call.unfinished -= 1

    def _log_failures(self, results: Sequence[RewardResult]) -> None:
        alike: dict[tuple[str, str], list[str]] = {}
        for result in results:
            if not result.ok:
                alike.setdefault((result.status, result.detail), []).append(result.sample_id)
        for (status, detail), ids in list(alike.items())[:LOGGED_PER_CALL]:
            more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
            logger.warning("reward of sample %s%s: %s: %s", ids[0], more, status, detail)
        if len(alike) > LOGGED_PER_CALL:
            logger.warning("rewards of further samples failed in %d other ways", len(alike) - LOGGED_PER_CALL)


class _Call:
    """Where one `score` call stands."""

    def __init__(self, samples: Sequence[RewardSample], packed: Sequence[bytes]) -> None:
        self.samples, self.packed = samples, packed
        self.pending = deque(range(len(samples)))
        self.results: list[RewardResult | None] = [None] * len(samples)
        self.unfinished = len(samples)

    def finished(self) -> list[RewardResult]:
        return [result for result in self.results if result is not None]


def _packed(sample: RewardSample) -> bytes:
    try:
        return pack([sample.data_source, sample.solution_str, sample.ground_truth, sample.extra_info])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"sample {sample.sample_id}: ground_truth or extra_info: {error}") from error


def _kill_all(workers: list[WorkerProcess]) -> None:
    for worker in workers:
        with contextlib.suppress(OSError):
            worker.kill()
    workers.clear()

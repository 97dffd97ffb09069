"""A step's generation and inference, replayed from lengths and costs alone: how long would this policy have taken?

The same rules as control.py, in milliseconds instead of messages: shares, queued samples for free rows, one migration
when r_t are left, chunks of ready units to whoever is idle. An instance is advanced from one finished sample to the
next, since a batch's steps take the same time in between. About a millisecond for a thousand samples.

What it leaves out: which task an instance ran last (it takes the largest unit of any), and noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fusedrl.stream.control import Policy
from fusedrl.stream.costs import StreamCosts
from fusedrl.stream.simulator_kernel import generate, infer, score


@dataclass(frozen=True, eq=False)
class Batch:
    """A step's samples, in the order in which the instances' shares follow each other.

    length_N: response tokens; prompt_N: prompt tokens; source_N: number of the prompt (copies share a prefill);
    share_I: samples of each instance.
    """

    length_N: np.ndarray
    prompt_N: np.ndarray
    source_N: np.ndarray
    share_I: np.ndarray

    @staticmethod
    def even(length_N: Sequence[int] | np.ndarray, *, instances: int, prompt_tokens: int = 0, n: int = 1) -> "Batch":
        """Shares whose sizes differ by one at most; prompts of one length with n samples each."""
        count = len(length_N)
        share_I = np.array([count // instances + (i < count % instances) for i in range(instances)])
        prompt_N, source_N = np.full(count, prompt_tokens), np.arange(count) // n
        return Batch(np.asarray(length_N, dtype=np.int64), prompt_N, source_N, share_I)

    def with_lengths(self, length_N: np.ndarray) -> "Batch":
        return Batch(length_N.astype(np.int64), self.prompt_N, self.source_N, self.share_I)


@dataclass(frozen=True)
class Outcome:
    """Milliseconds from the first share to the last sample ready, and to the last token; samples that moved."""

    total_ms: float
    generation_ms: float
    moved: int


class Simulator:
    """Simulates batches on instances of given costs. unit_size, chunk_tokens: as in the stream's options."""

    def __init__(self, costs: StreamCosts, *, unit_size: int = 1, chunk_tokens: int = 4096) -> None:
        self.costs = costs
        self._unit_size, self._chunk_tokens = unit_size, chunk_tokens
        self._step_R = costs.decode.table(costs.max_rows, extra_ms=costs.overhead_ms)
        self._infer_T = np.array(list(costs.infer_ms.values()), dtype=float)

    def run(self, batch: Batch, *, policy: Policy) -> Outcome:
        """One step under a policy."""
        costs, link = self.costs, self.costs.link
        finish_N, free_I, moved = generate(
            batch.length_N,
            batch.prompt_N.astype(np.int64),
            batch.source_N.astype(np.int64),
            batch.share_I.astype(np.int64),
            self._step_R,
            costs.prefill_ms,
            np.inf if link is None else link.latency_ms,
            0.0 if link is None else link.bytes_per_token / link.bytes_per_ms,
            costs.message_ms,
            policy.r_t if policy.streaming else 0,
            policy.m,
            costs.destination_rows,
        )
        generated = float(finish_N.max(initial=0.0))
        if not policy.streaming:
            finish_N, free_I = np.full_like(finish_N, generated), np.full_like(free_I, generated)
        scored = float(score(np.sort(finish_N), costs.score_ms, costs.score_workers))
        total = max(self._inferred(batch, finish_N, free_I), generated, scored) + costs.message_ms
        return Outcome(total, generated, int(moved))

    def _inferred(self, batch: Batch, finish_N: np.ndarray, free_I: np.ndarray) -> float:
        """When the last unit is done; units of all tasks over neighbours of `unit_size`."""
        if not len(self._infer_T):
            return 0.0
        starts = np.arange(0, len(finish_N), self._unit_size)
        ready_G = np.maximum.reduceat(finish_N, starts)
        tokens_G = np.add.reduceat(batch.length_N + batch.prompt_N, starts)
        tasks = len(self._infer_T)
        order = np.argsort(np.repeat(ready_G, tasks), kind="stable")
        tokens_U = np.repeat(tokens_G, tasks)[order]
        cost_U = tokens_U * np.tile(self._infer_T, len(starts))[order]
        ready_U = np.repeat(ready_G, tasks)[order]
        return float(infer(ready_U, tokens_U, cost_U, free_I, self.costs.message_ms, self._chunk_tokens))

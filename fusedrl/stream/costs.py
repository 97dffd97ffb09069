"""What the work of a step costs an instance, in milliseconds: the numbers that the simulator and the migration use.

decode step    piecewise linear in the rows of the batch: flat while memory-bound, rising beyond the knee
prefill        per token of the prompt (and of the response so far, where a sample is prefilled anew)
inference      per token of prompt and response, for each task (reference, critic, ...)
moving         latency + bytes / bandwidth of a sample's keys and values
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class DecodeCurve:
    """`points`: (rows, milliseconds of one decode step), rows rising; linear between, the last slope goes on."""

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        rows = [point[0] for point in self.points]
        if len(rows) < 2 or rows != sorted(set(rows)) or rows[0] < 1:
            raise ValueError(f"a decode curve needs two points or more, rows rising from 1; got rows {rows}")
        if any(ms <= 0 for _, ms in self.points):
            raise ValueError(f"a decode step takes time; got {self.points}")

    @staticmethod
    def with_knee(*, base_ms: float, row_ms: float, knee: int, beyond_ms: float) -> "DecodeCurve":
        """base + row_ms x rows, and beyond_ms more for each row above the knee."""
        at_knee = base_ms + row_ms * knee
        return DecodeCurve(((1, base_ms + row_ms), (knee, at_knee), (knee + 1, at_knee + row_ms + beyond_ms)))

    def step_ms(self, rows: int) -> float:
        """One decode step of a batch of `rows`."""
        right = min(max(bisect_left(self.points, (rows, 0.0)), 1), len(self.points) - 1)
        (rows_a, ms_a), (rows_b, ms_b) = self.points[right - 1], self.points[right]
        if rows <= self.points[0][0]:
            return self.points[0][1]
        return ms_a + (rows - rows_a) * (ms_b - ms_a) / (rows_b - rows_a)

    def table(self, rows: int, *, extra_ms: float = 0.0) -> np.ndarray:
        """[rows + 1] step times of every batch size; the first, of an empty batch, is 0."""
        return np.array([0.0, *(self.step_ms(n) + extra_ms for n in range(1, rows + 1))])

    def unslowed_rows(self, *, slack: float) -> int:
        """The largest batch whose step takes at most 1 + slack times that of the smallest."""
        limit, low, high = self.points[0][1] * (1 + slack), 1, 2
        while self.step_ms(high) <= limit:
            low, high = high, 2 * high
            if high > 1 << 24:  # a flat curve never reaches the limit
                return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.step_ms(middle) <= limit else (low, middle)
        return low


@dataclass(frozen=True, kw_only=True)
class Link:
    """The way of keys and values from one instance to another."""

    bytes_per_token: int
    bytes_per_ms: float
    latency_ms: float = 0.0

    def transfer_ms(self, tokens: int) -> float:
        return self.latency_ms + tokens * self.bytes_per_token / self.bytes_per_ms


@dataclass(frozen=True, kw_only=True)
class StreamCosts:
    """One instance's costs. overhead_ms: of the loop round each decode step; message_ms: of an answer from rank 0.

    slack: how much longer a decode step may get before an instance counts as full for migration.
    """

    decode: DecodeCurve
    prefill_ms: float
    infer_ms: Mapping[str, float] = field(default_factory=dict)
    link: Link | None = None  # None: keys and values are not moved
    max_rows: int = 256
    overhead_ms: float = 0.0
    message_ms: float = 0.0
    score_ms: float = 0.0  # of the reward function, a sample; it has score_workers workers
    score_workers: int = 1
    slack: float = 0.15

    @property
    def destination_rows(self) -> int:
        """Rows that an instance takes at most in a migration: its memory, and no slower decoding."""
        return min(self.max_rows, self.decode.unslowed_rows(slack=self.slack))

    def move_ms(self, tokens: int) -> float:
        """The cheaper way to go on elsewhere with a sample of so many tokens."""
        prefill = tokens * self.prefill_ms
        return prefill if self.link is None else min(prefill, self.link.transfer_ms(tokens))

    def transfers(self, tokens: int) -> bool:
        """Whether moving keys and values is the cheaper way."""
        return self.link is not None and self.link.transfer_ms(tokens) < tokens * self.prefill_ms

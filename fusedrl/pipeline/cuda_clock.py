"""A clock for work that a CUDA stream does later. It has not run yet: no GPU was at hand.

A mark is an event on the current stream. One event that host and stream have both seen ties the events to the host's
clock; the tie is as exact as a stream's synchronize is quick to return, some 10 us, and the same for all of a pass.
"""

import time
from collections.abc import Sequence

import torch


class CudaClock:
    """A Clock (timeline.py) of CUDA events."""

    def __init__(self) -> None:
        self._zero = torch.cuda.Event(enable_timing=True)
        self._zero.record()
        self._zero.synchronize()
        self._zero_ns = time.perf_counter_ns()

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def resolve(self, marks: Sequence[torch.cuda.Event]) -> list[int]:
        torch.cuda.synchronize()
        return [self._zero_ns + int(self._zero.elapsed_time(mark) * 1e6) for mark in marks]

"""When each op of a pass ran, on every rank, and the bubble that this amounts to.

    measured bubble = 1 - busy / (ranks * span)       span: first start to last end over all ranks
    replayed bubble = the replay's, with the measured durations in place of the planned ones

The difference of the two is what messages and the executor cost; the difference of the replayed and the planned one is
what the cost model got wrong. Times are nanoseconds of the host's monotonic clock, common to all ranks of one host;
between hosts the clocks have unrelated zeros, and only replayed figures compare.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from schedules.order import Op, Order
from schedules.problem import Problem
from schedules.replay import Replay, replay


class TimedOp(NamedTuple):
    """An op and its start and end, ns."""

    op: Op
    start: int
    end: int


@dataclass(frozen=True)
class Timeline:
    """The ops of one pass on every rank of the world, by rank. columns[r] is rank r's pipeline column."""

    ranks: tuple[tuple[TimedOp, ...], ...]
    columns: tuple[int, ...]

    @property
    def span(self) -> float:
        """Seconds from the first start to the last end."""
        ops = [timed for rank in self.ranks for timed in rank]
        return (max(t.end for t in ops) - min(t.start for t in ops)) / 1e9 if ops else 0.0

    @property
    def busy(self) -> float:
        """Seconds of op time, summed over ranks."""
        return sum(timed.end - timed.start for rank in self.ranks for timed in rank) / 1e9

    @property
    def bubble_ratio(self) -> float:
        """The share of rank time without an op; 0 where rounding puts it below."""
        return max(0.0, 1.0 - self.busy / (len(self.ranks) * self.span)) if self.span > 0 else 0.0


class Clock(Protocol):
    """mark() notes a moment; resolve() turns the notes into ns once the pass is over."""

    def mark(self) -> Any: ...

    def resolve(self, marks: Sequence[Any]) -> list[int]: ...


class HostClock:
    """For work that is done when its call returns."""

    mark: Callable[[], int] = staticmethod(time.monotonic_ns)

    def resolve(self, marks: Sequence[int]) -> list[int]:
        return list(marks)


class CudaClock:
    """For work that a stream does later: events, tied to the host's clock by one event that both have seen."""

    def __init__(self) -> None:
        self._zero = torch.cuda.Event(enable_timing=True)
        self._zero.record()
        self._zero.synchronize()
        self._zero_ns = time.monotonic_ns()

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def resolve(self, marks: Sequence[torch.cuda.Event]) -> list[int]:
        torch.cuda.synchronize()
        return [self._zero_ns + int(self._zero.elapsed_time(mark) * 1e6) for mark in marks]


def measured_durations(timeline: Timeline) -> dict[Op, float]:
    """Seconds of each op, the mean over the ranks that ran it."""
    seconds: dict[Op, list[float]] = defaultdict(list)
    for timed in (timed for rank in timeline.ranks for timed in rank):
        seconds[timed.op].append((timed.end - timed.start) / 1e9)
    return {op: sum(each) / len(each) for op, each in seconds.items()}


def measured_problem(problem: Problem, timeline: Timeline) -> Problem:
    """The problem with measured durations, in seconds; no time for messages."""
    seconds = measured_durations(timeline)

    def matrix(name: str, kind: str, *, stages: int, microbatches: int) -> list[list[float]]:
        return [[seconds[Op(name, kind, m, s)] for m in range(microbatches)] for s in range(stages)]  # type: ignore[arg-type]

    models = []
    for model in problem.models:
        size = {"stages": model.stages, "microbatches": model.microbatches}
        backward = matrix(model.name, "B", **size) if model.trains else None
        models.append(replace(model, forward=matrix(model.name, "F", **size), backward=backward, backward_weight=None))
    return replace(problem, models=tuple(models), comm=0.0, memory_cap=None)


def replayed(problem: Problem, order: Order, timeline: Timeline) -> Replay:
    """The order replayed with measured durations, in seconds."""
    return replay(measured_problem(problem, timeline), order)


def pack_ops(ops: Iterable[TimedOp]) -> list[list[Any]]:
    """Plain lists, for collectives."""
    return [[t.op.model, t.op.kind, t.op.microbatch, t.op.stage, t.start, t.end] for t in ops]


def unpack_ops(rows: Iterable[Sequence[Any]]) -> tuple[TimedOp, ...]:
    return tuple(TimedOp(Op(model, kind, m, s), start, end) for model, kind, m, s, start, end in rows)


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """The timeline in Chrome's trace format (chrome://tracing, Perfetto): a process per rank, a row per model."""
    zero = min((t.start for rank in timeline.ranks for t in rank), default=0)
    events = [
        {
            "name": f"{t.op.kind}{t.op.microbatch}",
            "cat": t.op.kind,
            "ph": "X",
            "ts": (t.start - zero) / 1e3,
            "dur": (t.end - t.start) / 1e3,
            "pid": rank,
            "tid": t.op.model,
            "args": {"stage": t.op.stage, "column": timeline.columns[rank]},
        }
        for rank, ops in enumerate(timeline.ranks)
        for t in ops
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def save_chrome_trace(timeline: Timeline, path: str | Path) -> None:
    Path(path).write_text(json.dumps(chrome_trace(timeline)))

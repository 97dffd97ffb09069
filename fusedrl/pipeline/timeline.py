"""When each op of a pass ran, on every rank, and the bubble that this amounts to.

    measured bubble = 1 - busy / (ranks * span)       span: first start to last end over all ranks
    replayed bubble = the replay's, with the measured durations in place of the planned ones

The difference of the two is what messages and the executor cost; the difference of the replayed and the planned one is
what the cost model got wrong. Times are nanoseconds of rank 0's time.perf_counter (clocks.py brings the others' to it).
"""

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from schedules.order import Op, Order
from schedules.problem import Kind, Model, Problem
from schedules.replay import Replay, replay


class TimedOp(NamedTuple):
    """An op and its start and end, ns.

    asked: when the rank began to wait for the op's message; None where it needed none. sent: when it handed the op's
    own message on; None where it made none.
    """

    op: Op
    start: int
    end: int
    asked: int | None = None
    sent: int | None = None

    def moved(self, by: int) -> "TimedOp":
        """The same on a clock that is `by` ahead."""
        asked = None if self.asked is None else self.asked + by
        sent = None if self.sent is None else self.sent + by
        return TimedOp(self.op, self.start + by, self.end + by, asked, sent)


@dataclass(frozen=True)
class Timeline:
    """The ops of one pass on every rank that takes part in it, by rank, with each one's pipeline column.

    clock_error: bound in ns on how wrong the times of two ranks may be against each other. places: of these ranks in
    their team, where not all of it takes part.
    """

    ranks: tuple[tuple[TimedOp, ...], ...]
    columns: tuple[int, ...]
    clock_error: int = 0
    places: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.places:
            object.__setattr__(self, "places", tuple(range(len(self.ranks))))

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

    @property
    def overhead(self) -> float:
        """Seconds a rank is busy with neither op nor waiting, between two of its ops; the median.

        It is what the executor costs an op: sends, receives posted, its own tables.
        """
        gaps = [
            (later.start if later.asked is None else later.asked) - op.end
            for rank in self.ranks
            for op, later in itertools.pairwise(rank)
        ]
        return statistics.median(gaps) / 1e9 if gaps else 0.0


class Clock(Protocol):
    """mark() notes a moment; resolve() turns the notes into ns once the pass is over."""

    def mark(self) -> Any: ...

    def resolve(self, marks: Sequence[Any]) -> list[int]: ...


class HostClock:
    """For work that is done when its call returns."""

    mark: Callable[[], int] = staticmethod(time.perf_counter_ns)

    def resolve(self, marks: Sequence[int]) -> list[int]:
        return list(marks)


def measured_durations(timeline: Timeline) -> dict[Op, float]:
    """Seconds of each op, the mean over the ranks that ran it."""
    seconds: dict[Op, list[float]] = defaultdict(list)
    for timed in (timed for rank in timeline.ranks for timed in rank):
        seconds[timed.op].append((timed.end - timed.start) / 1e9)
    return {op: sum(each) / len(each) for op, each in seconds.items()}


def measured_problem(problem: Problem, timeline: Timeline) -> Problem:
    """The problem with measured durations, in seconds; no time for messages. A W that ran is a part of its B."""
    seconds = measured_durations(timeline)
    models = tuple(_measured_model(model, seconds) for model in problem.models)
    return replace(problem, models=models, comm=0.0, memory_cap=None)


def _measured_model(model: Model, seconds: dict[Op, float]) -> Model:
    def matrix(kind: Kind) -> list[list[float]]:
        ops = [[Op(model.name, kind, m, s) for m in range(model.microbatches)] for s in range(model.stages)]
        return [[seconds.get(op, 0.0) for op in row] for row in ops]

    forward, weight = matrix("F"), matrix("W")
    if not model.trains:
        return replace(model, forward=forward)
    whole = [[b + w for b, w in zip(*rows, strict=True)] for rows in zip(matrix("B"), weight, strict=True)]
    return replace(model, forward=forward, backward=whole, backward_weight=weight)


def replayed(problem: Problem, order: Order, timeline: Timeline) -> Replay:
    """The order replayed with measured durations, in seconds."""
    return replay(measured_problem(problem, timeline), order)


def pack_ops(ops: Iterable[TimedOp]) -> list[list[Any]]:
    """Plain lists, for collectives."""
    return [[t.op.model, t.op.kind, t.op.microbatch, t.op.stage, *t[1:]] for t in ops]


def unpack_ops(rows: Iterable[Sequence[Any]], *, offset: int = 0) -> tuple[TimedOp, ...]:
    """The ops of pack_ops; `offset` is added to their times."""
    return tuple(TimedOp(Op(model, kind, m, s), *times).moved(offset) for model, kind, m, s, *times in rows)

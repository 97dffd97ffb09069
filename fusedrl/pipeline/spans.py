"""What ranks did in a step beside their passes' ops, interval by interval on rank 0's clock (clocks.py).

phases: those of the trainer's timers; instance: a generation replica's in a stream of samples (generate, wait, a task).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusedrl.parallel.comm import all_gather_object
from fusedrl.pipeline.clocks import align, host_id
from fusedrl.telemetry.timers import Span


@dataclass(frozen=True)
class RankSpans:
    phases: tuple[Span, ...]
    instance: tuple[Span, ...] = ()

    def all(self) -> Iterator[Span]:
        yield from self.phases
        yield from self.instance


def within(spans: Sequence[Span], name: str) -> list[Span]:
    """Those that lie in the last one of this name, itself included; all of them where there is none."""
    whole = [span for span in spans if span[0] == name][-1:]
    return [span for span in spans if all(outer[1] <= span[1] and span[2] <= outer[2] for outer in whole)]


def gather_spans(phases: Sequence[Span], instance: Sequence[Span] = ()) -> tuple[RankSpans, ...]:
    """Every rank's, by rank. A collective of all ranks."""
    mine = {"host": host_id(), "phases": [list(span) for span in phases], "instance": [list(s) for s in instance]}
    everyone = all_gather_object(mine)
    offsets = align([each["host"] for each in everyone]).offsets
    return tuple(
        RankSpans(_moved(each["phases"], offset), _moved(each["instance"], offset))
        for each, offset in zip(everyone, offsets, strict=True)
    )


def _moved(rows: Sequence[Sequence[Any]], offset: int) -> tuple[Span, ...]:
    return tuple((name, start + offset, end + offset) for name, start, end in rows)

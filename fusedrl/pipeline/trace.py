"""Passes as one trace for Perfetto (ui.perfetto.dev) or chrome://tracing: a process per rank.

    rank 2 (column 2)   phases     |gen |reward|infer_fused|update_fused ...   those of the step
                        instance   |generate|wait|actor|...                    of a stream of samples
                        ops        |actor F0|critic F0|   |actor B0| ...      arrows: messages
                        waiting                        |--|                   for a message that was not there yet
                        in flight  micro-batches, and MiB where measured      counters

Times start at 0 with the first of them. Bubble ratios, the clocks' error and peaks of memory stand in otherData.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.atomic import write_file
from fusedrl.pipeline.memory import Held
from fusedrl.pipeline.results import PassReport
from fusedrl.pipeline.spans import RankSpans
from fusedrl.pipeline.timeline import TimedOp, Timeline
from schedules.order import Op

Event = dict[str, Any]
OPS, WAITING, PHASES, INSTANCE = range(4)  # thread ids
_THREADS = ((PHASES, "phases"), (INSTANCE, "instance"), (OPS, "ops"), (WAITING, "waiting"))  # as they are shown
_AFTER = {"F": 1, "B": -1}  # kind -> from a message's stage to that which uses it


def chrome_trace(reports: Sequence[PassReport], *, spans: Sequence[RankSpans] = ()) -> dict[str, Any]:
    """Passes that followed each other, in Chrome's trace format. spans: what else each rank did, on the same clock."""
    timelines = [report.timeline for report in reports]
    starts = [t.start for timeline in timelines for rank in timeline.ranks for t in rank]
    zero = min([*starts, *(start for each in spans for _, start, _ in each.all())], default=0)
    events: list[Event] = list(_names(timelines[0], ranks=len(spans))) if timelines else []
    for rank, each in enumerate(spans):
        events += _span_events(each, rank=rank, zero=zero)
    for number, report in enumerate(reports):
        memory = report.memory or ((),) * len(report.timeline.ranks)
        for rank, ops, curve in zip(report.timeline.places, report.timeline.ranks, memory, strict=True):
            for timed in ops:
                events += _op_events(timed, rank=rank, zero=zero)
            events += _memory_events(ops, curve, rank=rank, zero=zero)
        events += _message_events(report.timeline, number=number, zero=zero)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"passes": [_facts(r) for r in reports]}}


def save_chrome_trace(path: Path, reports: Sequence[PassReport], *, spans: Sequence[RankSpans] = ()) -> None:
    write_file(path, json.dumps(chrome_trace(reports, spans=spans)))


def _names(timeline: Timeline, *, ranks: int) -> Iterator[Event]:
    """ranks: of the team, some of which may have no column."""
    column_of = dict(zip(timeline.places, timeline.columns, strict=True))
    for rank in sorted({*column_of, *range(ranks)}):
        named = {"ph": "M", "pid": rank}
        column = f" (column {column_of[rank]})" if rank in column_of else ""
        yield named | {"name": "process_name", "args": {"name": f"rank {rank}{column}"}}
        yield named | {"name": "process_sort_index", "args": {"sort_index": rank}}
        for place, (thread, name) in enumerate(_THREADS):
            yield named | {"name": "thread_name", "tid": thread, "args": {"name": name}}
            yield named | {"name": "thread_sort_index", "tid": thread, "args": {"sort_index": place}}


def _span_events(spans: RankSpans, *, rank: int, zero: int) -> Iterator[Event]:
    for thread, category, own in ((PHASES, "phase", spans.phases), (INSTANCE, "instance", spans.instance)):
        for name, start, end in own:
            yield _slice(name, category, start, end, zero=zero, rank=rank, thread=thread)


def _op_events(timed: TimedOp, *, rank: int, zero: int) -> Iterator[Event]:
    op = timed.op
    name, args = f"{op.model} {op.kind}{op.microbatch}", {"stage": op.stage, "microbatch": op.microbatch}
    yield _slice(name, f"{op.model},{op.kind}", timed.start, timed.end, zero=zero, rank=rank, thread=OPS) | {
        "args": args
    }
    if timed.asked is not None:
        yield _slice(f"for {name}", "wait", timed.asked, timed.start, zero=zero, rank=rank, thread=WAITING)


def _slice(name: str, category: str, start: int, end: int, *, zero: int, rank: int, thread: int) -> Event:
    times = {"ts": (start - zero) / 1e3, "dur": (end - start) / 1e3}
    return {"name": name, "cat": category, "ph": "X", "pid": rank, "tid": thread} | times


def _message_events(timeline: Timeline, *, number: int, zero: int) -> Iterator[Event]:
    """An arrow from each op that sent to the op that used it, on the rank with the same place among its column's."""
    ran: dict[Op, list[tuple[int, TimedOp]]] = {}
    for rank, ops in zip(timeline.places, timeline.ranks, strict=True):
        for timed in ops:
            ran.setdefault(timed.op, []).append((rank, timed))
    for op, senders in ran.items():
        for place, (rank, timed) in enumerate(senders):
            if timed.sent is not None:
                user, used = ran[replace(op, stage=op.stage + _AFTER[op.kind])][place]
                arrow = {"cat": "message", "name": "message", "id": f"{number}/{rank}/{op}", "tid": OPS}
                yield arrow | {"ph": "s", "pid": rank, "ts": (timed.end - 1 - zero) / 1e3}
                yield arrow | {"ph": "f", "bp": "e", "pid": user, "ts": (used.start - zero) / 1e3}


def _memory_events(ops: Sequence[TimedOp], curve: Sequence[Held], *, rank: int, zero: int) -> Iterator[Event]:
    """Counters of what is held once an op has run."""
    for timed, held in zip(ops, curve, strict=bool(curve)):
        at = {"ph": "C", "pid": rank, "ts": (timed.end - zero) / 1e3}
        yield at | {"name": "micro-batches in flight", "args": {"held": held.microbatches}}
        yield at | {"name": "MiB in flight", "args": {"held": held.nbytes / 2**20}}


def _facts(report: PassReport) -> dict[str, Any]:
    bubbles = {kind: getattr(report, f"{kind}_bubble") for kind in ("planned", "replayed", "measured")}
    facts: dict[str, Any] = {"bubble_ratio": bubbles, "clock_error_ns": report.timeline.clock_error}
    return facts | ({"peak_memory": vars(report.peaks)} if report.peaks is not None else {})

"""A profiled step on the clock as inline SVG, in milliseconds: its phases by rank, and the ops of its training passes.

Phases: a row a rank, and below it what the rank's instance did in a stream of samples. Ops: hues are the models'; F is
light, B and W are full. Messages, waiting and memory are in trace_stepN.json, for Perfetto.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusedrl.report.chart import HUES, number
from fusedrl.trainers.sample_table import as_text

MOST = 2000  # boxes that are drawn
WIDTH, LEFT, ROW = 960, 60, 26
OPS, PHASES, INSTANCE = 0, 2, 3  # thread ids of a trace
WHOLE = "step"  # the phase that holds all others


@dataclass(frozen=True)
class Event:
    """start and length in microseconds; category: model and kind of an op."""

    rank: int
    start: float
    length: float
    name: str
    category: str


@dataclass(frozen=True)
class _Box:
    row: int
    event: Event
    hue: int
    light: bool = False


def events_of(trace: Mapping[str, Any], *, thread: int) -> list[Event]:
    """The slices of a trace's thread by their start, long ones first; events that are none are passed over."""
    found = []
    for event in trace["traceEvents"]:
        if not isinstance(event, dict) or event.get("ph") != "X" or event.get("tid") != thread:
            continue
        rank, start, length = event.get("pid"), event.get("ts"), event.get("dur")
        if isinstance(rank, int) and isinstance(start, int | float) and isinstance(length, int | float):
            found.append(Event(rank, float(start), float(length), str(event.get("name")), str(event.get("cat"))))
    return sorted(found, key=lambda event: (event.start, -event.length))


def timeline(trace: Mapping[str, Any], *, label: str) -> str:
    """The ops by rank; empty where the trace has none."""
    everything = events_of(trace, thread=OPS)
    ops = everything[:MOST]
    models = list(dict.fromkeys(op.category.split(",")[0] for op in ops))
    ranks = sorted({op.rank for op in ops})
    boxes = [
        _Box(ranks.index(op.rank), op, models.index(op.category.split(",")[0]), light=op.category.endswith(",F"))
        for op in ops
    ]
    told = f"{_counted(len(ops), len(everything), 'ops')}; F light, B and W full"
    return _drawing(boxes, [f"rank {rank}" for rank in ranks], models, label=label, told=told)


def phases(trace: Mapping[str, Any], *, label: str) -> str:
    """What each rank did in the step: phases of the trainer, and of its instance; empty where the trace tells none."""
    everything = [
        *(event for event in events_of(trace, thread=PHASES) if event.name != WHOLE),
        *events_of(trace, thread=INSTANCE),
    ]
    shown = everything[:MOST]
    streamed = {event.rank for event in shown if event.category == "instance"}
    rows = [(rank, kind) for rank in sorted({event.rank for event in shown}) for kind in ("phase", "instance")]
    rows = [(rank, kind) for rank, kind in rows if kind == "phase" or rank in streamed]
    taken: dict[str, float] = {}
    for event in shown:
        taken[event.name] = taken.get(event.name, 0.0) + event.length
    names = sorted(taken, key=lambda name: -taken[name])  # hues repeat, so the longest get theirs first
    boxes = [
        _Box(rows.index((event.rank, "instance" if event.category == "instance" else "phase")), event, hue)
        for event in shown
        for hue in [names.index(event.name)]
    ]
    headings = [f"rank {rank}" if kind == "phase" else "instance" for rank, kind in rows]
    return _drawing(boxes, headings, names, label=label, told=_counted(len(shown), len(everything), "intervals"))


def _counted(shown: int, all_of_them: int, what: str) -> str:
    return f"{shown} {what}" if shown == all_of_them else f"the first {shown} of {all_of_them} {what}"


def _drawing(boxes: Sequence[_Box], rows: Sequence[str], names: Sequence[str], *, label: str, told: str) -> str:
    """Boxes under a heading and a legend; time starts with the first of them."""
    if not boxes:
        return ""
    zero = min(box.event.start for box in boxes)
    scale = (WIDTH - LEFT - 10) / (max(box.event.start + box.event.length - zero for box in boxes) or 1.0)
    height = ROW * len(rows) + 24
    parts = [f'<text class="end" x="{LEFT - 6}" y="{ROW * k + 17}">{as_text(row)}</text>' for k, row in enumerate(rows)]
    parts += [_rect(box, zero=zero, scale=scale, row=rows[box.row]) for box in boxes]
    parts += [f'<text x="{LEFT}" y="{height - 6}">0 ms</text>']
    end = (WIDTH - LEFT - 10) / scale / 1e3
    parts += [f'<text class="end" x="{WIDTH - 10}" y="{height - 6}">{number(end)} ms</text>']
    keys = "".join(f'<span><i class="b{k % HUES}"></i>{as_text(name)}</span> ' for k, name in enumerate(names))
    return (
        f'<figure class="wide" tabindex="0"><figcaption><b>{as_text(label)}</b> <small>{told}</small>'
        f'<div class="legend">{keys}</div></figcaption><svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{as_text(label)}">{"".join(parts)}</svg></figure>\n'
    )


def _rect(box: _Box, *, zero: float, scale: float, row: str) -> str:
    event, start = box.event, box.event.start - zero
    light = ' opacity="0.5"' if box.light else ""
    place = f'x="{LEFT + start * scale:.2f}" y="{ROW * box.row + 2}" height="{ROW - 4}"'
    width = f'width="{max(event.length * scale, 0.3):.2f}"'
    rank = f"rank {event.rank}" + (" instance" if row == "instance" else "")
    title = as_text(f"{rank}: {event.name} from {number(start / 1e3)} ms for {number(event.length / 1e3)} ms")
    return f'<rect class="f{box.hue % HUES}" {place} {width}{light}><title>{title}</title></rect>'

"""A profiled step on the clock as inline SVG: a row a rank, a box an op, in milliseconds.

Hues are the models'; F is light, B and W are full. Messages and memory are in trace_stepN.json, for Perfetto.
"""

from collections.abc import Mapping
from typing import Any

from fusedrl.report.chart import HUES, number
from fusedrl.trainers.sample_table import as_text

MOST = 2000  # ops that are drawn
WIDTH, LEFT, ROW = 960, 60, 26

Op = tuple[int, float, float, str, str]  # rank, start and length in microseconds, name, model and kind


def ops_of(trace: Mapping[str, Any]) -> list[Op]:
    """The ops of a trace by their start; events that are none are passed over."""
    found = []
    for event in trace["traceEvents"]:
        if not isinstance(event, dict) or event.get("ph") != "X" or event.get("tid") != 0:
            continue
        rank, start, length = event.get("pid"), event.get("ts"), event.get("dur")
        if isinstance(rank, int) and isinstance(start, int | float) and isinstance(length, int | float):
            found.append((rank, float(start), float(length), str(event.get("name")), str(event.get("cat"))))
    return sorted(found, key=lambda op: op[1])


def timeline(trace: Mapping[str, Any], *, label: str) -> str:
    """The drawing; empty where the trace has no op."""
    everything = ops_of(trace)
    ops = everything[:MOST]
    if not ops:
        return ""
    ranks = sorted({op[0] for op in ops})
    models = list(dict.fromkeys(op[4].split(",")[0] for op in ops))
    scale = (WIDTH - LEFT - 10) / (max(op[1] + op[2] for op in ops) or 1.0)
    height = ROW * len(ranks) + 24
    end = (WIDTH - LEFT - 10) / scale / 1e3
    parts = [f'<text class="end" x="{LEFT - 6}" y="{ROW * k + 17}">rank {rank}</text>' for k, rank in enumerate(ranks)]
    parts += [_box(op, y=ROW * ranks.index(op[0]), hue=models.index(op[4].split(",")[0]), scale=scale) for op in ops]
    parts += [f'<text x="{LEFT}" y="{height - 6}">0 ms</text>']
    parts += [f'<text class="end" x="{WIDTH - 10}" y="{height - 6}">{number(end)} ms</text>']
    keys = "".join(f'<span><i class="b{k % HUES}"></i>{as_text(name)}</span> ' for k, name in enumerate(models))
    told = f"{len(everything)} ops" if len(ops) == len(everything) else f"the first {MOST} of {len(everything)} ops"
    return (
        f'<figure class="wide"><figcaption><b>{as_text(label)}</b> <small>{told}; F light, B and W full</small>'
        f'<div class="legend">{keys}</div></figcaption><svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{as_text(label)}">{"".join(parts)}</svg></figure>\n'
    )


def _box(op: Op, *, y: int, hue: int, scale: float) -> str:
    rank, start, length, name, category = op
    light = ' opacity="0.5"' if category.endswith(",F") else ""
    place = f'x="{LEFT + start * scale:.2f}" y="{y + 2}" width="{max(length * scale, 0.3):.2f}" height="{ROW - 4}"'
    title = as_text(f"rank {rank}: {name} from {number(start / 1e3)} ms for {number(length / 1e3)} ms")
    return f'<rect class="f{hue % HUES}" {place}{light}><title>{title}</title></rect>'

"""An order as a Chrome trace (chrome://tracing, Perfetto): a thread per rank, a counter of the memory it holds.

One unit of the problem's time is shown as one millisecond.
"""

import json
from pathlib import Path

from schedules.draw.memory import memory_curves
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import replay

_MICROSECONDS = 1000.0  # per unit of time
Event = dict[str, object]


def chrome_trace(problem: Problem, order: Order) -> dict[str, object]:
    """The trace as the JSON object format of the Trace Event specification."""
    result = replay(problem, order)
    events: list[Event] = []
    for rank, row in enumerate(order.rows):
        events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": rank, "args": {"name": f"rank {rank}"}})
        for op in row:
            begin, end = result.start[op] * _MICROSECONDS, result.end[op] * _MICROSECONDS
            args = {"stage": op.stage, "microbatch": op.microbatch}
            event: Event = {"ph": "X", "name": str(op), "cat": f"{op.model},{op.kind}", "pid": 0, "tid": rank}
            events.append(event | {"ts": begin, "dur": end - begin, "args": args})
    for rank, curve in enumerate(memory_curves(problem, order)):
        name = f"memory of rank {rank}"
        events += [{"ph": "C", "name": name, "pid": 0, "ts": t * _MICROSECONDS, "args": {"held": m}} for t, m in curve]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"problem": problem.digest}}


def save_trace(path: str | Path, *, problem: Problem, order: Order) -> None:
    """Write the trace as JSON."""
    Path(path).write_text(json.dumps(chrome_trace(problem, order)), encoding="utf-8")

"""The Chrome trace holds every op once per rank, and loads as JSON."""

import json

from schedules.builders import greedy
from schedules.draw.trace import chrome_trace, save_trace
from schedules.replay import replay
from tests.schedules.published import published


def test_bars_are_the_replayed_ops(tmp_path):
    problem = published(5)
    order = greedy(problem)
    save_trace(tmp_path / "t.json", problem=problem, order=order)
    trace = json.loads((tmp_path / "t.json").read_text())
    assert trace == json.loads(json.dumps(chrome_trace(problem, order)))
    result = replay(problem, order)
    bars = {(e["tid"], e["name"]): (e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"}
    assert bars == {
        (rank, str(op)): (result.start[op] * 1000, (result.end[op] - result.start[op]) * 1000)
        for rank, row in enumerate(order.rows)
        for op in row
    }


def test_counters_peak_at_the_peak_memory():
    problem = published(5)
    order = greedy(problem)
    held = {}
    for event in chrome_trace(problem, order)["traceEvents"]:
        if event["ph"] == "C":
            held[event["name"]] = max(held.get(event["name"], 0), event["args"]["held"])
    assert tuple(held.values()) == replay(problem, order).peak_memory

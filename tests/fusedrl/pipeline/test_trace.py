import json
from pathlib import Path

import pytest

from fusedrl.pipeline.trace import chrome_trace
from tests.distributed.pool import RankPool

OPS = 2 * (4 * 2 + 3 * 2)  # of two ranks; F and B


def test_trace_of_two_passes_shows_ops_waits_messages_and_memory(ranks: RankPool, tmp_path: Path) -> None:
    job = "tests.fusedrl.pipeline.timeline_jobs:profiled"
    results = ranks.run(job, world=2, kind="opposed", builder="greedy", folder=str(tmp_path))
    assert all(result["ordered"] for result in results)
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    ops = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
    waits = [e for e in events if e["ph"] == "X" and e["tid"] == 1]
    assert len(ops) == 2 * OPS
    assert min(e["ts"] for e in ops) == 0
    assert len(waits) == 2 * (4 * 2 + 3 * 2)  # each F after the first stage, each B before the last
    assert sum(results[0]["waits"]) == len(waits) / 4
    counters = [e for e in events if e["ph"] == "C"]
    assert len(counters) == 2 * OPS  # two an op in the first pass; the second did not measure
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {
        "rank 0 (column 0)",
        "rank 1 (column 1)",
    }
    assert [set(p) for p in trace["otherData"]["passes"]] == [
        {"bubble_ratio", "clock_error_ns", "peak_memory"},
        {"bubble_ratio", "clock_error_ns"},
    ]


@pytest.mark.parametrize(("world", "kind", "messages"), [(2, "opposed", 4 + 3), (4, "copies", 4 * 3 + 2 * 3)])
def test_each_message_is_an_arrow_from_its_op_to_the_one_that_used_it(
    ranks: RankPool, tmp_path: Path, world: int, kind: str, messages: int
) -> None:
    job = "tests.fusedrl.pipeline.timeline_jobs:profiled"
    ranks.run(job, world=world, kind=kind, builder="serial", folder=str(tmp_path))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    arrows: dict[str, dict[str, dict]] = {}
    for event in events:
        if event["ph"] in "sf":
            arrows.setdefault(event["id"], {})[event["ph"]] = event
    ops = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
    assert len(arrows) == 2 * 2 * messages  # passes, directions

    def inside(event: dict) -> str:
        (name,) = (
            e["name"] for e in ops if e["pid"] == event["pid"] and e["ts"] - 1e-6 <= event["ts"] < e["ts"] + e["dur"]
        )
        return name

    for arrow in arrows.values():
        start, end = arrow["s"], arrow["f"]
        assert start["pid"] != end["pid"]
        assert start["ts"] <= end["ts"]
        assert inside(start) == inside(end)  # the same micro-batch's F, or B, at the next stage


def test_no_passes_make_an_empty_trace() -> None:
    assert chrome_trace([])["traceEvents"] == []

import json
from pathlib import Path

import pytest

from fusedrl.pipeline.memory import Held
from fusedrl.pipeline.results import PassReport
from fusedrl.pipeline.spans import RankSpans
from fusedrl.pipeline.timeline import TimedOp, Timeline
from fusedrl.pipeline.trace import chrome_trace
from schedules.order import Op
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


def test_phases_and_instances_are_threads_of_their_rank_on_the_clock_of_the_trace() -> None:
    spans = [RankSpans((("step", 2_000, 9_000),)), RankSpans((("step", 3_000, 8_000),), (("wait", 4_000, 5_000),))]
    slices = [e for e in chrome_trace([], spans=spans)["traceEvents"] if e["ph"] == "X"]
    assert [(e["pid"], e["tid"], e["name"], e["ts"], e["dur"]) for e in slices] == [
        (0, 2, "step", 0.0, 7.0),
        (1, 2, "step", 1.0, 5.0),
        (1, 3, "wait", 2.0, 1.0),
    ]


def test_ops_stand_with_the_ranks_that_ran_them_where_others_took_no_part() -> None:
    """Ranks 1 and 3 of four train; all have phases."""
    sends = TimedOp(Op("actor", "F", 0, 0), 1_000, 2_000, sent=1_500)
    uses = TimedOp(Op("actor", "F", 0, 1), 2_500, 3_000)
    timeline = Timeline(((sends,), (uses,)), columns=(0, 1), places=(1, 3))
    report = PassReport({}, timeline, 0.0, 0.0, 0.0, memory=((Held(sends.op, 1, 2**20),),) * 2)
    events = chrome_trace([report], spans=[RankSpans((("step", 0, 3_000),))] * 4)["traceEvents"]
    assert [e["pid"] for e in events if e["ph"] == "X" and e["tid"] == 0] == [1, 3]
    assert {e["pid"] for e in events if e["ph"] == "C"} == {1, 3}
    assert {(e["ph"], e["pid"]) for e in events if e["ph"] in "sf"} == {("s", 1), ("f", 3)}
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == ["rank 0", "rank 1 (column 0)", "rank 2", "rank 3 (column 1)"]

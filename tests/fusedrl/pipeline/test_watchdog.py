"""A rank that is stuck, killed or raises: every other rank says where it stood, and one message tells it all."""

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

from tests.distributed.pool import RankPool
from tests.fusedrl.pipeline.failure_jobs import on_a_store

FAILURES = "tests.fusedrl.pipeline.failure_jobs"


def marked(op: str) -> str:
    return f">>{op}<<"


def test_stuck_rank_says_where_and_the_first_message_names_it(ranks: RankPool) -> None:
    results = ranks.run(f"{FAILURES}:fail_toy", world=2, how="stuck", timeout=1.0, failing=1)
    waiting, stuck = results
    assert waiting["kind"] == "MessageTimeout"
    assert waiting["seconds"] < 1.0 + 3.0 + 1.0  # the limit, and time to ask the others
    assert "rank 1 (column 1) at actor:F1@1: computing for" in waiting["error"]
    (row,) = [line for line in stuck["logged"] if "computing" in line]
    assert marked("actor:F1@1") in row
    assert "rank 0: last to it actor:B0@1->0, last from it actor:F1@0->1" in row
    assert stuck["logged"].count(row) == 1


def test_rank_that_raises_ends_the_others_at_once_and_tells_alone(ranks: RankPool) -> None:
    results = ranks.run(f"{FAILURES}:fail_toy", world=4, how="raise", timeout=60.0, failing=1)
    assert max(result["seconds"] for result in results) < 20  # nobody waited for the limit
    tellers = [rank for rank, result in enumerate(results) if any("rank 2 " in line for line in result["logged"][1:])]
    assert tellers == [1]
    whole = results[1]["logged"][-1]
    assert "ZeroDivisionError" in whole
    for rank in (0, 2, 3):
        assert f"  rank {rank} (column {rank}) at " in whole
        assert f"column {rank}" in results[rank]["logged"][0]
        assert ">>" in results[rank]["logged"][0]
        assert "failed first: rank 1 (column 1) at actor:F1@1: ZeroDivisionError" in results[rank]["error"]


def test_killed_rank_is_named_by_those_who_talked_to_it(tmp_path: Path) -> None:
    context, world = multiprocessing.get_context("spawn"), 2
    job: dict[str, Any] = {"world": world, "store": str(tmp_path / "store"), "how": "killed", "timeout": 60.0}
    processes = [
        context.Process(target=on_a_store, kwargs=job | {"rank": r, "out": str(tmp_path / str(r)), "failing": 1})
        for r in range(world)
    ]
    for process in processes:
        process.start()
    ends = time.monotonic() + 50
    for process in processes:
        process.join(max(0.0, ends - time.monotonic()))
        process.kill()
    seen = json.loads((tmp_path / "0").read_text())
    assert "rank 1 closed the connection; it ended, failed or was killed" in seen["error"]
    assert "rank 1 does not answer" in seen["error"]
    assert ">>" in seen["logged"][0]
    assert seen["seconds"] < 20
    assert not (tmp_path / "1").exists()

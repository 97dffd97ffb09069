"""An engine in a stream: samples go on elsewhere with what they have, and its work is timed by size."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fusedrl.rollout import streamed
from fusedrl.rollout.megatron import EngineStats
from fusedrl.rollout.streamed import StreamedEngine
from tests.distributed.pool import RankPool


def test_samples_go_on_with_their_keys_where_that_is_worth_it(
    ranks: RankPool, checkpoint: Callable[[str], str]
) -> None:
    (found,) = ranks.run("tests.distributed.streamed_jobs:move_some", world=1, folder=checkpoint("llama"))
    assert found["moved"] == found["plain"]
    assert found["with_cache"] == [0, 2]
    assert found["bytes"] == found["bytes_per_token"] * found["tokens"] > 0
    times = found["times"]
    # both prompts in the first engine; in the second one a sample with two tokens of response, and the one that waited
    assert times["prefill/0"]["size"] == (3 + 2) + (3 + 2) + 2
    assert times["decode/2"]["count"] >= 1
    assert all(each["ms"] > 0 for each in times.values())


def test_a_steps_time_is_that_of_decoding_without_its_prefills(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = EngineStats(prefill_tokens=100, prefill_seconds=5.0, decode_tokens=50, decode_steps=7)

    def step() -> list[Any]:
        stats.prefill_tokens += 30
        stats.prefill_seconds += 0.25
        stats.decode_tokens += 3
        stats.decode_steps += 1
        return []

    engine: Any = SimpleNamespace(stats=stats, step=step, max_rows=4)
    times = StreamedEngine(engine)
    clock = iter((10.0, 11.0))
    monkeypatch.setattr(streamed, "perf_counter", lambda: next(clock))
    assert times.step() == []
    decode, prefill = times.times.sums["decode", 2], times.times.sums["prefill", 0]
    assert (decode.size, decode.ms) == (3, 750.0)
    assert (prefill.size, prefill.ms) == (30, 250.0)

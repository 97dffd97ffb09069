"""Streaming and migration, over gloo ranks and sockets, give the very batch that the stages give."""

from itertools import pairwise

import pytest

from fusedrl.bench.emulated_rollout import emulated_logprobs, emulated_tokens
from tests.distributed.pool import RankPool
from tests.fusedrl.stream import stream_jobs

JOB = "tests.fusedrl.stream.stream_jobs:stream"
COUNT = stream_jobs.COUNT
STAGES = {"streaming": False}
EAGER = {"streaming": True, "r_t": COUNT - 4}  # as soon as no sample is queued


@pytest.mark.parametrize(("tp", "unit_size"), [(1, 1), (2, 4)])
def test_streaming_and_migration_leave_the_batch_bit_for_bit(ranks: RankPool, tp: int, unit_size: int) -> None:
    layout = {"world": 4, "tp": tp, "unit_size": unit_size}
    stages = ranks.run(JOB, policy=STAGES, **layout)
    streaming = ranks.run(JOB, policy={"streaming": True}, **layout)
    moved = ranks.run(JOB, policy=EAGER, **layout)
    anew = ranks.run(JOB, policy=EAGER, link=False, **layout)
    for found in (*stages, *streaming, *moved, *anew):
        assert found["samples"] == stages[0]["samples"]
    assert streaming[0]["metrics"]["migrated_samples"] == 0
    assert moved[0]["metrics"]["migrated_samples"] > 0
    assert moved[0]["metrics"]["migrated_bytes"] > 0
    assert anew[0]["metrics"]["prefilled_samples"] == anew[0]["metrics"]["migrated_samples"] > 0
    assert anew[0]["metrics"]["migrated_bytes"] == 0


def test_every_rank_gets_every_sample_whole_and_in_order(ranks: RankPool) -> None:
    for found in ranks.run(JOB, world=2, policy=EAGER):
        assert len(found["samples"]) == COUNT
        for i, (sample, score, _, _) in enumerate(found["samples"]):
            sample_id, prompt, tokens, logprobs, reason = sample
            length = stream_jobs.lengths()[i]
            assert (sample_id, prompt) == (i, (i // 2, 1, 2))
            assert tuple(tokens) == emulated_tokens(i, start=0, stop=length)
            assert tuple(logprobs) == emulated_logprobs(i, start=0, stop=length)
            assert reason == ("length" if length >= 62 else "stop")
            assert score == length / 3
        assert 0 <= found["metrics"]["idle_ratio"] < 1
        assert found["metrics"]["refused_messages"] == 0
        spans = found["spans"]
        assert {name for name, _, _ in spans} <= {"take in", "generate", "wait", "migrate", *stream_jobs.TASKS}
        assert all(before[2] <= after[1] for before, after in pairwise(spans))  # one thing at a time
        assert spans


def test_a_dead_instance_is_named_on_all_other_ranks(ranks: RankPool) -> None:
    first, dead, last = ranks.run("tests.fusedrl.stream.stream_jobs:stream_with_a_dead_rank", world=3)
    assert dead == "dead"
    assert first == last
    assert first.startswith("StreamError: instance 1 was last heard ")


def test_a_coordinator_that_cannot_start_is_told_on_all_ranks(ranks: RankPool) -> None:
    first, other = ranks.run("tests.fusedrl.stream.stream_jobs:stream_that_cannot_start", world=2)
    assert first == other
    assert first.startswith("the coordinator cannot start: rollout.stream.address=no.such.host.invalid")

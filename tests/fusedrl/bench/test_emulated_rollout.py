"""The emulated engine takes the time its costs say, and keeps every token wherever a sample goes."""

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedrl.bench import emulated_rollout as module
from fusedrl.bench.emulated_rollout import EmulatedEngine, EmulatedInference, emulated_logprobs, emulated_tokens
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.stream.costs import DecodeCurve, Link, StreamCosts
from fusedrl.stream.instance import CacheMover

QUICK = StreamCosts(
    decode=DecodeCurve(((1, 1e-4), (2, 1e-4))),
    prefill_ms=0.0,
    max_rows=4,
    link=Link(bytes_per_token=1, bytes_per_ms=1e9),
)


def request(sample_id: int, *, max_tokens: int = 1000) -> Request:
    return Request(sample_id=sample_id, prompt=(sample_id, 1, 1), params=SamplingParams(max_tokens=max_tokens))


def whole(sample_id: int, length: int) -> Completion:
    tokens, logprobs = (f(sample_id, start=0, stop=length) for f in (emulated_tokens, emulated_logprobs))
    return Completion(
        sample_id=sample_id, prompt=(sample_id, 1, 1), tokens=tokens, logprobs=logprobs, finish_reason="stop"
    )


@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=10), seed=st.integers(), cached=st.booleans())
def test_every_token_survives_any_number_of_moves(lengths: list[int], seed: int, cached: bool) -> None:
    random, by_id = Random(seed), dict(enumerate(lengths))
    engines = [EmulatedEngine(by_id, costs=QUICK) for _ in range(2)]
    engines[0].add([request(each) for each in by_id])
    done: list[Completion] = []
    where = dict.fromkeys(by_id, 0)
    while where:
        for index, engine in enumerate(engines):
            for finished in engine.step():
                done.append(finished)
                del where[finished.sample_id]
            moving = [each for each, at in where.items() if at == index and random.random() < 0.3]
            requests, moved, packed = engine.extract_cached(moving, moves=lambda each: cached)
            other = engines[1 - index]
            room = other.max_rows - other.unfinished
            if len(moved) > max(room, 0):
                moved = []
            elif moved:
                received = other.empty_cache(moved)
                received.copy_(packed)
                other.add_cached(moved, received)
            other.add([each for each in requests if each not in moved])
            where |= dict.fromkeys(moving, 1 - index)
    assert sorted(done, key=lambda each: each.sample_id) == [whole(i, length) for i, length in by_id.items()]
    assert not any(engine.unfinished for engine in engines)


def test_steps_and_prefills_sleep_for_what_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[int] = []
    monkeypatch.setattr(module, "sleep_until", slept.append)
    monkeypatch.setattr(module.time, "perf_counter_ns", lambda: 0)
    costs = StreamCosts(decode=DecodeCurve(((1, 4.0), (2, 12.0))), prefill_ms=1.0)
    engine = EmulatedEngine({0: 3, 1: 2, 2: 9}, costs=costs)
    engine.add([request(0), request(1)])
    engine.step()  # two prompts of three tokens, two rows
    engine.step()  # one row
    engine.step()  # none
    EmulatedInference({"ref": 0.5}).infer("ref", [whole(1, 5), whole(2, 3)])  # 8 and 6 tokens
    assert slept == [18_000_000, 4_000_000, 0, 7_000_000]


def test_a_response_of_the_limits_length_ends_by_length() -> None:
    engine = EmulatedEngine({0: 3, 1: 2}, costs=QUICK)
    engine.add([request(0, max_tokens=3), request(1, max_tokens=3)])
    done = [each for _ in range(4) for each in engine.step()]
    assert [(each.sample_id, each.finish_reason) for each in done] == [(1, "stop"), (0, "length")]


def test_keys_and_values_of_another_sample_are_noticed() -> None:
    engine = EmulatedEngine({0: 3}, costs=QUICK)
    assert isinstance(engine, CacheMover)
    with pytest.raises(AssertionError, match="of others"):
        engine.add_cached([request(0)], torch.full((3,), 7, dtype=torch.int32))


def test_inference_depends_on_task_and_sample_alone() -> None:
    models, samples = EmulatedInference({"ref": 1e-4, "values": 1e-4}), [whole(1, 5), whole(2, 3)]
    together, alone = models.infer("ref", samples)["ref"], models.infer("ref", samples[1:])["ref"]
    assert [len(each) for each in together] == [5, 3]
    assert together[1].tobytes() == alone[0].tobytes()
    assert together[0].tobytes() != models.infer("values", samples)["values"][0].tobytes()

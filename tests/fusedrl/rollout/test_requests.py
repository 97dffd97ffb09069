"""Requests refuse what cannot be generated; completions survive the wire."""

import msgpack
import pytest

from fusedrl.rollout.requests import Completion, Request, samples_of
from fusedrl.rollout.sampling import SamplingParams


def test_completion_survives_msgpack():
    sent = Completion(
        sample_id=2**40, prompt=(1, 2), tokens=(5, 150_000, 0), logprobs=(-0.5, -1.25, 0.0), finish_reason="stop"
    )
    wire = msgpack.unpackb(msgpack.packb(sent.to_wire()))
    assert Completion.from_wire(wire, prompt=(1, 2)) == sent


def test_empty_completion_survives_msgpack():
    sent = Completion(sample_id=0, prompt=(1,), tokens=(), logprobs=(), finish_reason="length")
    assert Completion.from_wire(msgpack.unpackb(msgpack.packb(sent.to_wire())), prompt=(1,)) == sent


def test_samples_of_numbers_copies_of_a_prompt_in_a_row():
    params = SamplingParams()
    requests = samples_of({4: (1, 2), 7: (3,)}, n=2, params=params)
    assert [(r.sample_id, r.prompt) for r in requests] == [(8, (1, 2)), (9, (1, 2)), (14, (3,)), (15, (3,))]
    assert [r.sample_id for r in samples_of([(1,), (2,)], n=3, params=params)] == list(range(6))


def test_requests_without_a_prompt_or_with_unequal_logprobs_are_refused():
    with pytest.raises(ValueError, match="sample 3: an empty prompt"):
        Request(sample_id=3, prompt=(), params=SamplingParams())
    with pytest.raises(ValueError, match="1 response tokens but 0 logprobs"):
        Request(sample_id=3, prompt=(1,), params=SamplingParams(), response=(2,))

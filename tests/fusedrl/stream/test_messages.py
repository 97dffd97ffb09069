"""Every message survives the wire; nothing else is taken for one."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.stream import messages
from fusedrl.stream.messages import (
    MalformedMessage,
    Message,
    SampleState,
    completion_of,
    decode,
    encode,
    request_of,
    state_of,
)

states = st.builds(
    lambda sample_id, n, reason, cached: SampleState(sample_id, b"t" * 4 * n, b"p" * 4 * n, reason, cached),
    st.integers(0, 2**40),
    st.integers(0, 4),
    st.sampled_from(["", "stop", "length"]),
    st.booleans(),
)
units = st.builds(messages.UnitRef, st.text(max_size=5), st.integers(0, 1000))
values = st.builds(messages.Values, st.text(max_size=5), st.integers(0, 1000), st.binary(max_size=8))
some = st.integers(0, 2**31)
KINDS: dict[str, st.SearchStrategy[Message]] = {
    "Hello": st.builds(messages.Hello, some),
    "Finished": st.builds(messages.Finished, st.lists(states, max_size=3).map(tuple)),
    "Extracted": st.builds(messages.Extracted, some, st.lists(states, max_size=3).map(tuple), some),
    "Want": st.builds(messages.Want, some),
    "UnitsDone": st.builds(
        messages.UnitsDone, st.lists(units, max_size=3).map(tuple), st.lists(values, max_size=3).map(tuple)
    ),
    "Pulse": st.builds(messages.Pulse, some, st.text(max_size=9)),
    "Failed": st.builds(messages.Failed, st.text(max_size=9)),
    "Generate": st.builds(messages.Generate, st.lists(states, max_size=3).map(tuple), st.integers(-1, 7)),
    "Extract": st.builds(messages.Extract, some, st.lists(some, max_size=3).map(tuple)),
    "Infer": st.builds(messages.Infer, st.lists(units, max_size=2).map(tuple), st.lists(states, max_size=2).map(tuple)),
    "Stop": st.just(messages.Stop()),
    "Abort": st.builds(messages.Abort, st.text(max_size=9)),
    "Echo": st.just(messages.Echo()),
}


def test_every_kind_is_covered() -> None:
    assert set(KINDS) == set(messages._KINDS)


@given(st.one_of(*KINDS.values()))
def test_messages_survive_the_wire(message: Message) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=60))
def test_no_bytes_but_messages_are_read(data: bytes) -> None:
    try:
        message = decode(data)
    except MalformedMessage:
        return
    assert decode(encode(message)) == message


@given(message=st.one_of(*KINDS.values()), place=st.integers(0, 400), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_messages_are_refused_or_well_typed(message: Message, place: int, byte: int, cut: bool) -> None:
    data = bytearray(encode(message))
    place %= len(data)
    damaged = bytes(data[:place]) if cut else bytes(data[:place] + bytes([byte]) + data[place + 1 :])
    try:
        found = decode(damaged)
    except MalformedMessage:
        return
    assert decode(encode(found)) == found


@pytest.mark.parametrize(
    "found",
    [
        ["Want", [True]],  # a bool is no number
        ["Want", [1.0]],
        ["Want", []],
        ["Want", [1, 2]],
        ["Want", 1],
        ["Nothing", []],
        ["Generate", [[[0, b"abc", b"abc", "", False]], -1]],  # tokens are 4 bytes each
        ["Generate", [[[0, b"", b"1234", "", False]], -1]],
        ["Finished", ["text"]],
        {"Want": [1]},
        None,
        [["Want"], [1]],
    ],
)
def test_wrong_names_counts_and_types_are_refused(found: object) -> None:
    with pytest.raises(MalformedMessage):
        decode(msgpack.packb(found))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        decode(b"\x91" * 100_000 + b"\x00")


@given(
    tokens=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(-50, 0, width=32)), max_size=6), whole=st.booleans()
)
def test_samples_come_back_as_they_were(tokens: list[tuple[int, float]], whole: bool) -> None:
    ids, logprobs = tuple(t for t, _ in tokens), tuple(p for _, p in tokens)
    origin = Request(sample_id=3, prompt=(1, 2), params=SamplingParams(seed=9))
    if whole:
        sample = Completion(sample_id=3, prompt=(1, 2), tokens=ids, logprobs=logprobs, finish_reason="stop")
        assert completion_of(decode_state(state_of(sample)), prompt=(1, 2)) == sample
    else:
        request = Request(sample_id=3, prompt=(1, 2), params=SamplingParams(seed=9), response=ids, logprobs=logprobs)
        assert request_of(decode_state(state_of(request)), origin=origin) == request


def decode_state(state: SampleState) -> SampleState:
    found = decode(encode(messages.Finished((state,))))
    assert isinstance(found, messages.Finished)
    assert found.samples[0].length == len(state.tokens) // 4
    return found.samples[0]

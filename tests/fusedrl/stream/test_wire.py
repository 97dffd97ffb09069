"""A frame is taken once, from its maker, unchanged, by whom it was made for; all else is refused and named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.stream.wire import COORDINATOR, Channel, FrameLost, Opener, Refused, Sealer

SECRET, OTHER = b"s" * 32, b"o" * 32


def opener(secret: bytes = SECRET, *, max_bytes: int = 1000) -> Opener:
    return Opener(secret, receiver=COORDINATOR, senders=range(4).__contains__, max_bytes=max_bytes)


def sealer(secret: bytes = SECRET, *, sender: int = 2, channel: Channel = Channel.WORK) -> Sealer:
    return Sealer(secret, sender=sender, receiver=COORDINATOR, channel=channel)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(Channel), st.binary(max_size=20)), max_size=20))
def test_frames_open_in_order_whoever_sends_between(sent: list[tuple[int, Channel, bytes]]) -> None:
    reader, writers = opener(), {(i, c): sealer(sender=i, channel=c) for i in range(4) for c in Channel}
    assert [reader.open(writers[i, c].seal(body)) for i, c, body in sent] == sent


@given(place=st.integers(0, 60), change=st.integers(1, 255))
def test_a_changed_byte_anywhere_is_refused_and_changes_nothing(place: int, change: int) -> None:
    reader, frame = opener(), bytearray(sealer().seal(b"a body of some bytes"))
    frame[place % len(frame)] ^= change
    with pytest.raises(Refused):
        reader.open(bytes(frame))
    frame[place % len(frame)] ^= change
    assert reader.open(bytes(frame)) == (2, Channel.WORK, b"a body of some bytes")


def kind(reader: Opener, frame: bytes) -> str:
    with pytest.raises(Refused) as caught:
        reader.open(frame)
    return caught.value.kind


def test_refusals_are_told_apart() -> None:
    reader, writer = opener(max_bytes=200), sealer()
    first = writer.seal(b"x")
    reader.open(first)
    assert kind(reader, first) == "replayed"
    assert kind(reader, b"short") == "malformed"
    assert kind(reader, writer.seal(b"x" * 300)) == "oversized"
    assert kind(reader, sealer(OTHER, sender=1).seal(b"x")) == "foreign"
    assert kind(reader, sealer(sender=4).seal(b"x")) == "foreign"  # the right secret, an unknown name


def test_a_frame_cannot_be_turned_back_or_moved_to_another_channel() -> None:
    mirrored = Sealer(SECRET, sender=2, receiver=3, channel=Channel.WORK).seal(b"x")
    assert kind(opener(), mirrored) == "foreign"
    frame = bytearray(sealer(channel=Channel.PULSE).seal(b"x"))
    frame[36] = Channel.WORK
    assert kind(opener(), bytes(frame)) == "foreign"


def test_a_lost_frame_is_an_error_that_names_its_sender() -> None:
    reader, writer = opener(), sealer()
    writer.seal(b"lost")
    with pytest.raises(FrameLost, match="frames 0 to 0 of instance 2 were lost"):
        reader.open(writer.seal(b"x"))

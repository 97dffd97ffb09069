from typing import Any

import numpy as np
import pytest

from fusedrl.rewards.wire import pack, pack_list, unpacker


def through(message: Any) -> Any:
    stream = unpacker()
    stream.feed(pack(message))
    return next(stream)


@pytest.mark.parametrize(
    "message",
    [
        None,
        [1, -2.5, True, "é", b"\x00", {"a": {"b": []}}],
        {3: "integer keys"},
        2**200,
        [-(2**64), 2**64],
        "a lone surrogate \ud800",
        0.1,
    ],
)
def test_messages_arrive_as_they_were(message: Any) -> None:
    found = through(message)
    assert found == message
    assert type(found) is type(message)


def test_numpy_values_tuples_and_sets_arrive_as_numbers_and_lists() -> None:
    message = {"a": np.float32(0.5), "b": np.arange(3), "c": (1, 2), "d": frozenset({7})}
    assert through(message) == {"a": 0.5, "b": [0, 1, 2], "c": [1, 2], "d": [7]}


def test_what_cannot_be_sent_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="object cannot be sent to a reward worker"):
        pack([object()])


def test_a_list_packed_by_pieces_is_the_list_packed_whole() -> None:
    pieces = [["x", i, None] for i in range(70)]
    assert pack_list([pack(piece) for piece in pieces]) == pack(pieces)


def test_messages_cut_anywhere_arrive_when_they_are_complete() -> None:
    stream, found = unpacker(), []
    for byte in pack(["one", 1]) + pack(["two", 2]):
        stream.feed(bytes([byte]))
        found += list(stream)
    assert found == [["one", 1], ["two", 2]]

"""Messages between a runner and its workers: a stream of msgpack objects. No pickle: a worker runs untrusted code, and
whoever unpickles its answers runs that code too.

Beyond msgpack's own types: integers of any size, NumPy scalars and arrays (as numbers and lists), lone surrogates in
strings. Tuples and sets arrive as lists.
"""

from collections.abc import Sequence
from typing import Any

import msgpack

BIG_INTEGER = 1  # msgpack extension type: decimal digits
MAX_MESSAGE = 2**31 - 1


def pack(message: Any) -> bytes:
    """Raises TypeError for an object that has no place in a message."""
    return msgpack.packb(message, default=_encode, unicode_errors="surrogatepass")


def pack_list(packed: Sequence[bytes]) -> bytes:
    """One message, the list of messages packed before."""
    return msgpack.Packer().pack_array_header(len(packed)) + b"".join(packed)


def unpacker() -> msgpack.Unpacker:
    """Feed it bytes as they come, iterate over the messages that are complete."""
    return msgpack.Unpacker(
        ext_hook=_decode, strict_map_key=False, unicode_errors="surrogatepass", max_buffer_size=MAX_MESSAGE
    )


def _encode(value: Any) -> Any:
    if isinstance(value, int):  # msgpack's own end at 64 bits
        return msgpack.ExtType(BIG_INTEGER, str(value).encode())
    if isinstance(value, (set, frozenset)):
        return list(value)
    if hasattr(value, "tolist"):  # NumPy, without importing it
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent to a reward worker")


def _decode(code: int, data: bytes) -> Any:
    if code == BIG_INTEGER:
        return int(data)
    raise ValueError(f"unknown message type {code}")

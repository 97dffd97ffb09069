"""Frames that only this run's ranks can make: HMAC-SHA256 over sender, channel, number and body, with a secret per run.

    frame = mac (32 bytes) | sender (4) | channel (1) | number (8) | body

Each (direction, sender, channel) has a key of its own, so a frame cannot be sent back to its maker, and its numbers
count up by one: an old number is a replay, a number that is too high means that a frame was lost. Nothing is encrypted:
whoever can read the network between the ranks reads torch's traffic too.
"""

import hashlib
import hmac
import struct
from collections import Counter
from collections.abc import Callable
from enum import IntEnum

SECRET_BYTES = 32
COORDINATOR = 0xFFFFFFFF  # the sender of frames to instances
_HEAD = struct.Struct(">IBQ")
_MAC = 32


class Channel(IntEnum):
    """A thread of an instance that has a socket of its own."""

    WORK = 0
    PULSE = 1


class Refused(Exception):
    """A frame that is not taken, and the kind of reason that is counted: foreign, malformed, oversized or replayed."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class FrameLost(RuntimeError):
    """A frame of this run's own rank never came."""


class Sealer:
    """Makes the frames of one sender on one channel to one receiver."""

    def __init__(self, secret: bytes, *, sender: int, receiver: int, channel: Channel) -> None:
        self._key = _key(secret, sender=sender, receiver=receiver, channel=channel)
        self._sender, self._channel, self._number = sender, channel, 0

    def seal(self, body: bytes) -> bytes:
        content = _HEAD.pack(self._sender, self._channel, self._number) + body
        self._number += 1
        return hmac.digest(self._key, content, "sha256") + content


class Opener:
    """Checks the frames that reach one receiver. `senders`: whom it listens to."""

    def __init__(self, secret: bytes, *, receiver: int, senders: Callable[[int], bool], max_bytes: int) -> None:
        self._secret, self._receiver, self._senders, self._max = secret, receiver, senders, max_bytes
        self._keys: dict[tuple[int, Channel], bytes] = {}
        self._expected: Counter[tuple[int, Channel]] = Counter()

    def open(self, frame: bytes) -> tuple[int, Channel, bytes]:
        """(sender, channel, body). Raises Refused, or FrameLost where frames of a genuine sender are missing."""
        if len(frame) > self._max:
            raise Refused("oversized", f"{len(frame)} bytes, at most {self._max}")
        if len(frame) < _MAC + _HEAD.size:
            raise Refused("malformed", f"{len(frame)} bytes are no frame")
        mac, content = frame[:_MAC], frame[_MAC:]
        sender, channel, number = _HEAD.unpack_from(content)
        if channel not in tuple(Channel) or not self._senders(sender):
            raise Refused("foreign", f"unknown sender {sender}, channel {channel}")
        source = (sender, Channel(channel))
        if not hmac.compare_digest(mac, hmac.digest(self._key(source), content, "sha256")):
            raise Refused("foreign", f"a frame in the name of sender {sender} is not of this run")
        if number < self._expected[source]:
            raise Refused("replayed", f"frame {number} of sender {sender} came again")
        if number > self._expected[source]:
            raise FrameLost(f"frames {self._expected[source]} to {number - 1} of {name_of(sender)} were lost")
        self._expected[source] += 1
        return sender, source[1], content[_HEAD.size :]

    def _key(self, source: tuple[int, Channel]) -> bytes:
        if source not in self._keys:
            self._keys[source] = _key(self._secret, sender=source[0], receiver=self._receiver, channel=source[1])
        return self._keys[source]


def name_of(sender: int) -> str:
    return "the coordinator" if sender == COORDINATOR else f"instance {sender}"


def _key(secret: bytes, *, sender: int, receiver: int, channel: Channel) -> bytes:
    assert len(secret) == SECRET_BYTES
    return hmac.digest(secret, struct.pack(">IIB", sender, receiver, channel), hashlib.sha256)

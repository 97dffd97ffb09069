"""What the coordinator and the instances say to each other: plain frozen data, msgpack on the wire.

    instance -> coordinator                          coordinator -> instance
    Hello      here, with so many rows               Generate   samples to generate, new or migrated
    Finished   samples whose response is whole       Extract    take samples out, for another instance
    Extracted  samples taken out, as they stand      Infer      units of inference, with the samples they read
    Want       nothing left to do                    Stop       all samples are ready
    UnitsDone  results of units                      Abort      the step failed, and why
    Pulse      alive, and how far                    Echo       the coordinator is alive
    Failed     this instance cannot go on

Prompts never travel: every rank knows the requests of the step. Decoding takes nothing for granted: a wrong name, count
or type is a MalformedMessage.
"""

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from fusedrl.rollout.requests import Completion, Request

MAX_BYTES = 64 << 20  # of one message; a chunk of results of a thousand long samples is a few MiB


class MalformedMessage(ValueError):
    """Bytes that no rank of this program sends."""


@dataclass(frozen=True)
class SampleState:
    """A sample's response so far. reason: "" while unfinished. cached: its keys and values travel beside it."""

    sample_id: int
    tokens: bytes  # int32, little-endian
    logprobs: bytes  # float32, little-endian
    reason: str = ""
    cached: bool = False

    def __post_init__(self) -> None:
        if len(self.tokens) % 4 or len(self.tokens) != len(self.logprobs):
            raise MalformedMessage(f"sample {self.sample_id}: {len(self.tokens)} and {len(self.logprobs)} bytes")

    @property
    def length(self) -> int:
        """Tokens of the response."""
        return len(self.tokens) // 4


@dataclass(frozen=True)
class Values:
    """One array of one sample, float32."""

    name: str
    sample_id: int
    data: bytes


@dataclass(frozen=True)
class UnitRef:
    """Names a unit; its samples follow from its index (units.py)."""

    task: str
    index: int


@dataclass(frozen=True)
class Hello:
    rows: int


@dataclass(frozen=True)
class Finished:
    samples: tuple[SampleState, ...]


@dataclass(frozen=True)
class Extracted:
    destination: int
    samples: tuple[SampleState, ...]
    moved_bytes: int


@dataclass(frozen=True)
class Want:
    """seen: how many Generate and Extract messages this instance has acted on; an older wish is out of date."""

    seen: int


@dataclass(frozen=True)
class UnitsDone:
    units: tuple[UnitRef, ...]
    values: tuple[Values, ...]


@dataclass(frozen=True)
class Pulse:
    progress: int
    activity: str


@dataclass(frozen=True)
class Failed:
    reason: str


@dataclass(frozen=True)
class Generate:
    """source: the instance whose ranks send the keys and values of cached samples; -1 where there are none."""

    samples: tuple[SampleState, ...]
    source: int = -1


@dataclass(frozen=True)
class Extract:
    destination: int
    sample_ids: tuple[int, ...]


@dataclass(frozen=True)
class Infer:
    units: tuple[UnitRef, ...]
    samples: tuple[SampleState, ...]


@dataclass(frozen=True)
class Stop:
    pass


@dataclass(frozen=True)
class Abort:
    reason: str


@dataclass(frozen=True)
class Echo:
    pass


ToCoordinator = Hello | Finished | Extracted | Want | UnitsDone | Pulse | Failed
ToInstance = Generate | Extract | Infer | Stop | Abort | Echo
Message = ToCoordinator | ToInstance
_KINDS: dict[str, type] = {kind.__name__: kind for kind in typing.get_args(Message)}
_TYPES = {kind: typing.get_type_hints(kind) for kind in (*_KINDS.values(), SampleState, Values, UnitRef)}


def encode(message: Message) -> bytes:
    return msgpack.packb([type(message).__name__, _plain(message)], use_bin_type=True)


def decode(data: bytes) -> Message:
    """Raises MalformedMessage for anything that `encode` does not give."""
    try:
        found = msgpack.unpackb(data, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise MalformedMessage(f"not msgpack: {error}"[:200]) from error
    match found:
        case [str(name), list(values)] if name in _KINDS:
            return _build(_KINDS[name], values)
    raise MalformedMessage(f"no message: {found!r}"[:200])


def state_of(sample: Request | Completion, *, cached: bool = False) -> SampleState:
    """The response of a sample, whole or not, without its prompt."""
    whole = isinstance(sample, Completion)
    tokens = np.asarray(sample.tokens if isinstance(sample, Completion) else sample.response, dtype="<i4")
    logprobs = np.asarray(sample.logprobs, dtype="<f4")
    reason = sample.finish_reason if isinstance(sample, Completion) else ""
    assert whole == bool(reason)
    return SampleState(sample.sample_id, tokens.tobytes(), logprobs.tobytes(), reason, cached)


def request_of(state: SampleState, *, origin: Request) -> Request:
    """The request that goes on where the state ends."""
    tokens, logprobs = _arrays(state)
    return dataclasses.replace(origin, response=tokens, logprobs=logprobs)


def completion_of(state: SampleState, *, prompt: tuple[int, ...]) -> Completion:
    """The finished sample."""
    tokens, logprobs = _arrays(state)
    wire = {"id": state.sample_id, "tokens": state.tokens, "logprobs": state.logprobs, "reason": state.reason}
    assert len(tokens) == len(logprobs)
    return Completion.from_wire(wire, prompt=prompt)


def _arrays(state: SampleState) -> tuple[tuple[int, ...], tuple[float, ...]]:
    tokens = np.frombuffer(state.tokens, dtype="<i4")
    return tuple(tokens.tolist()), tuple(np.frombuffer(state.logprobs, dtype="<f4").tolist())


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, name)) for name in _TYPES[type(value)]]
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _build(kind: type, values: Any) -> Any:
    hints = _TYPES[kind]
    if not isinstance(values, list) or len(values) != len(hints):
        raise MalformedMessage(f"{kind.__name__} with {values!r}"[:200])
    return kind(*(_typed(value, hint, kind=kind) for value, hint in zip(values, hints.values(), strict=True)))


def _typed(value: Any, hint: Any, *, kind: type) -> Any:
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise MalformedMessage(f"{kind.__name__}: {value!r} is no list"[:200])
        return tuple(_typed(item, typing.get_args(hint)[0], kind=kind) for item in value)
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value)
    if type(value) is not hint:  # exactly: True is no int
        raise MalformedMessage(f"{kind.__name__}: {value!r} is no {hint.__name__}"[:200])
    return value

"""One instance: the ranks of a generation replica, working through what the coordinator asks. Engines are plugged in.

    leader:  message -> agree with the tensor-parallel peers -> act -> report        (peers: agree -> act)

    messages first, then generation, then units of inference; with none of them left: Want, and wait

The engine and the models of inference are whatever has the methods below: emulated (fusedrl.bench.emulated_rollout) or
real. Every rank of an instance makes the same calls in the same order. Keys and values of a moving sample go from each
rank straight to the rank of the same place in the other instance, by torch.distributed: sent before the coordinator
hears of them, so the receiver never waits for a sender that waits.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch.distributed as dist
from torch import Tensor

from fusedrl.parallel.comm import broadcast_bytes
from fusedrl.rollout.requests import Completion, Request
from fusedrl.stream.client import Client, StreamError
from fusedrl.stream.costs import StreamCosts
from fusedrl.stream.liveness import IDLE
from fusedrl.stream.messages import (
    Abort,
    Extract,
    Extracted,
    Failed,
    Finished,
    Generate,
    Hello,
    Infer,
    Message,
    SampleState,
    Stop,
    UnitRef,
    UnitsDone,
    Values,
    Want,
    completion_of,
    decode,
    encode,
    request_of,
    state_of,
)
from fusedrl.telemetry.timers import Span


class Engine(Protocol):
    """What generates: fusedrl.rollout's engines."""

    max_rows: int

    @property
    def unfinished(self) -> int: ...

    def add(self, requests: Sequence[Request]) -> None: ...

    def step(self) -> list[Completion]: ...

    def extract(self, sample_ids: Collection[int]) -> list[Request]: ...


@runtime_checkable
class CacheMover(Protocol):
    """What an engine offers beyond `Engine` so that samples move with their keys and values."""

    def extract_cached(
        self, sample_ids: Collection[int], *, moves: Callable[[Request], bool]
    ) -> tuple[list[Request], list[Request], Tensor]:
        """`extract`, and beside it the requests whose keys and values go along, with this rank's part of these, packed.

        `moves` tells for which it is worth it; a sample that has none yet goes without.
        """

    def empty_cache(self, requests: Sequence[Request]) -> Tensor:
        """Where the packed keys and values of such requests are received."""

    def add_cached(self, requests: Sequence[Request], packed: Tensor) -> None:
        """Go on with the requests; nothing is prefilled."""


class Inference(Protocol):
    """The models that read finished samples. An answer must depend on the samples of the call alone."""

    def infer(self, task: str, samples: Sequence[Completion]) -> Mapping[str, Sequence[np.ndarray]]:
        """For each result its float32 array of each sample."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where this rank stands. ranks: the global ranks of every instance; group: this instance's, None for one rank."""

    instance: int
    member: int
    ranks: Sequence[Sequence[int]]
    group: Any = None

    @property
    def leads(self) -> bool:
        return self.member == 0

    def peer(self, instance: int) -> int:
        """The rank of the same place in another instance."""
        return self.ranks[instance][self.member]


@dataclass
class Stats:
    """Seconds of this rank's step by what it did."""

    generating: float = 0.0
    inferring: float = 0.0
    moving: float = 0.0
    waiting: float = 0.0


class _Step:
    """One decode step: an action of the instance's own, never a message of the coordinator's."""


_STEP = _Step()
Action = Message | _Step


class Instance:
    """Serves one step on this rank. `client` is the leader's connection; the other ranks have none."""

    def __init__(
        self,
        place: Place,
        *,
        engine: Engine,
        inference: Inference | None,
        requests: Mapping[int, Request],
        groups: Sequence[Sequence[int]],
        client: Client | None,
        costs: StreamCosts | None = None,
    ) -> None:
        assert place.leads == (client is not None)
        self.stats = Stats()
        self.spans: list[Span] = []
        self._place, self._engine, self._inference, self._client = place, engine, inference, client
        self._requests, self._groups, self._costs = requests, groups, costs
        self._held: set[int] = set()  # sample ids in the engine
        self._units: deque[tuple[UnitRef, tuple[SampleState, ...]]] = deque()
        self._chunk: tuple[UnitRef, ...] = ()
        self._values: list[Values] = []
        self._seen, self._wanted = 0, False
        self._sending: list[tuple[Any, Tensor]] = []

    def run(self) -> Stats:
        """Until the coordinator says that all samples are ready. StreamError: the step is off."""
        self._say(Hello(self._engine.max_rows))
        try:
            while True:
                action = self._agree(self._next() if self._place.leads else None)
                if isinstance(action, Stop):
                    return self.stats
                if isinstance(action, Abort):
                    raise StreamError(action.reason)
                self._act(action)
                if self._client is not None:
                    self._client.progress += 1
        except StreamError:
            raise
        except Exception as error:
            self._say(Failed(f"{type(error).__name__}: {error}"[:2000]))
            raise

    def _say(self, message: Message) -> None:
        if self._client is not None:
            self._client.send(message)

    def _next(self) -> Action:
        """The leader's choice of what all ranks of the instance do now."""
        assert self._client is not None
        try:
            message = self._client.poll()
            while message is None or isinstance(message, Infer):
                if isinstance(message, Infer):
                    self._queue(message)
                if self._engine.unfinished:
                    self._client.activity = f"generating {self._engine.unfinished} samples"
                    return _STEP
                if self._units:
                    return self._unit()
                message = self._wait()
            return message
        except StreamError as error:  # the peers must hear of it too
            return Abort(str(error))

    def _queue(self, message: Infer) -> None:
        by_id = {state.sample_id: state for state in message.samples}
        self._units.extend((unit, tuple(by_id[each] for each in self._groups[unit.index])) for unit in message.units)
        self._chunk, self._wanted = message.units, False

    def _unit(self) -> Infer:
        assert self._client is not None
        unit, samples = self._units.popleft()
        self._client.activity = f"running {unit.task} on {len(samples)} samples"
        return Infer((unit,), samples)

    def _wait(self) -> Message:
        assert self._client is not None
        if not self._wanted:
            self._say(Want(self._seen))
            self._wanted = True
        self._client.activity = IDLE
        began = time.perf_counter()
        message = self._client.wait()
        self.stats.waiting += self._spent("wait", began)
        return message

    def _agree(self, action: Action | None) -> Action:
        """The leader's action on every rank of the instance."""
        if len(self._place.ranks[self._place.instance]) == 1:
            assert action is not None
            return action
        told = None if action is None else b"" if isinstance(action, _Step) else encode(action)
        leader = self._place.ranks[self._place.instance][0]
        heard = broadcast_bytes(told, src=leader, group=self._place.group)
        return decode(heard) if heard else _STEP

    def _act(self, action: Action) -> None:
        began = time.perf_counter()
        match action:
            case _Step():
                self._generate()
                self.stats.generating += self._spent("generate", began)
            case Infer():
                self._infer(action)
                self.stats.inferring += self._spent(action.units[0].task, began)
            case Generate():
                self._take_in(action)
                self.stats.moving += self._spent("take in", began)
            case Extract():
                self._give_out(action)
                self.stats.moving += self._spent("migrate", began)
            case _:
                raise AssertionError(f"{type(action).__name__} is nothing that an instance does")

    def _spent(self, name: str, began: float) -> float:
        """Seconds until now, kept as a span; what follows the same is one with it."""
        ended = time.perf_counter()
        if self.spans and self.spans[-1][0] == name:
            name, start, _ = self.spans.pop()
        else:
            start = round(began * 1e9)
        self.spans.append((name, start, round(ended * 1e9)))
        return ended - began

    def _generate(self) -> None:
        done = self._engine.step()
        if done:
            self._held.difference_update(each.sample_id for each in done)
            self._say(Finished(tuple(state_of(each) for each in done)))
        self._sending = [(work, tensor) for work, tensor in self._sending if not work.is_completed()]

    def _infer(self, message: Infer) -> None:
        assert self._inference is not None
        (unit,) = message.units
        samples = [completion_of(each, prompt=self._requests[each.sample_id].prompt) for each in message.samples]
        for name, arrays in self._inference.infer(unit.task, samples).items():
            for sample, array in zip(samples, arrays, strict=True):
                data = np.asarray(array, dtype="<f4").tobytes()
                self._values.append(Values(name, sample.sample_id, data))
        if not self._units:
            self._say(UnitsDone(self._chunk, tuple(self._values)))
            self._chunk, self._values = (), []

    def _take_in(self, message: Generate) -> None:
        self._seen, self._wanted = self._seen + 1, False
        self._held.update(state.sample_id for state in message.samples)
        pairs = [(request_of(s, origin=self._requests[s.sample_id]), s.cached) for s in message.samples]
        cached = [request for request, moved in pairs if moved]
        if cached:
            assert isinstance(self._engine, CacheMover)
            packed = self._engine.empty_cache(cached)
            dist.recv(packed, src=self._place.peer(message.source))
            self._engine.add_cached(cached, packed)
        self._engine.add([request for request, moved in pairs if not moved])

    def _give_out(self, message: Extract) -> None:
        self._seen, self._wanted = self._seen + 1, False
        ids = [each for each in message.sample_ids if each in self._held]  # the others finished in the meantime
        requests, moved, sent_bytes = self._engine_gives(ids, to=message.destination)
        self._held.difference_update(each.sample_id for each in requests)
        cached = {each.sample_id for each in moved}
        states = tuple(state_of(each, cached=each.sample_id in cached) for each in requests)
        self._say(Extracted(message.destination, states, sent_bytes))

    def _engine_gives(self, ids: Sequence[int], *, to: int) -> tuple[list[Request], list[Request], int]:
        """(requests, those whose keys and values are on their way, bytes that all ranks of the instance send)."""
        costs = self._costs
        if costs is None or costs.link is None or not isinstance(self._engine, CacheMover):
            return self._engine.extract(ids), [], 0
        requests, moved, packed = self._engine.extract_cached(ids, moves=lambda each: costs.transfers(len(each.tokens)))
        if moved:
            self._sending.append((dist.isend(packed, dst=self._place.peer(to)), packed))
        members = len(self._place.ranks[self._place.instance])
        return requests, moved, members * packed.nbytes if moved else 0

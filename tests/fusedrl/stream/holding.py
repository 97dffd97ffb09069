"""Engines that wait for the migration, so that it finds samples to move however fast or slow the machine is."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from torch import Tensor

from fusedrl.bench.emulated_rollout import EmulatedEngine
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.streamed import StreamedEngine

HOLD_AT = 20  # steps: fewer than the longest samples of these tests take
LIMIT_S = 60.0


class Holding:
    """Mixed into an engine: after its first finished samples, or HOLD_AT steps, it waits until samples leave or come.

    So the first Finished of a step leaves unfinished samples on each of two instances, and the moves it asks for meet
    them. Only for two instances that both hold all of theirs, where at least one sample ends within HOLD_AT steps.
    """

    _steps = 0
    _held_s: float | None = None  # when it began to wait
    _moved = False

    def add(self: Any, requests: Sequence[Request]) -> None:
        if any(each.response for each in requests):
            self._moved = True
        elif requests:  # a new step
            self._steps, self._held_s, self._moved = 0, None, False
        super().add(requests)  # type: ignore[misc]

    def add_cached(self: Any, requests: Sequence[Request], packed: Tensor) -> None:
        super().add_cached(requests, packed)  # type: ignore[misc]
        self._moved = True

    def extract(self: Any, sample_ids: Collection[int]) -> list[Request]:
        self._moved = True
        return super().extract(sample_ids)  # type: ignore[misc, no-any-return]

    def extract_cached(self: Any, sample_ids: Collection[int], *, moves: Callable[[Request], bool]) -> Any:
        self._moved = True
        return super().extract_cached(sample_ids, moves=moves)  # type: ignore[misc]

    def step(self: Any) -> list[Completion]:
        if self._held_s is not None and not self._moved and self.unfinished:
            if time.monotonic() > self._held_s + LIMIT_S:
                raise AssertionError(f"{LIMIT_S:.0f} s held: no sample left or came")
            time.sleep(0.002)
            return []
        done: list[Completion] = super().step()  # type: ignore[misc]
        self._steps += 1
        if self._held_s is None and (done or self._steps == HOLD_AT):
            self._held_s = time.monotonic()
        return done


class HeldStreamedEngine(Holding, StreamedEngine): ...


class HeldEmulatedEngine(Holding, EmulatedEngine): ...

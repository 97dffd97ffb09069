"""How long a search may take."""

import time
from dataclasses import dataclass, replace
from threading import Event


@dataclass(frozen=True)
class Limits:
    """The first limit that is met ends a search. With `steps`, no met `seconds` and one worker it is reproducible.

    steps: neighbours that annealing looks at, moves that tabu search makes; CP-SAT gets as much of its deterministic
    time as annealing takes for them.
    """

    seconds: float = 60.0
    steps: int | None = None
    workers: int = 1
    seed: int = 0

    def part(self, share: float) -> "Limits":
        """A share of the limits."""
        return replace(
            self, seconds=self.seconds * share, steps=None if self.steps is None else int(self.steps * share)
        )

    def later(self, seconds: float) -> "Limits":
        """What is left after so many seconds."""
        return replace(self, seconds=max(0.0, self.seconds - seconds))


class Clock:
    """Counts down limits from now on. `stop`, where given, ends it from another thread."""

    def __init__(self, limits: Limits, *, stop: Event | None = None) -> None:
        self._limits = limits
        self._ends = time.perf_counter() + limits.seconds
        self._steps = limits.steps
        self._stop = stop

    @property
    def over(self) -> bool:
        """Whether a limit is met."""
        stopped = self._stop is not None and self._stop.is_set()
        return stopped or self._steps == 0 or time.perf_counter() >= self._ends

    @property
    def used(self) -> float:
        """The share of the limits that is used up: of the steps where they are limited, else of the time."""
        if self._limits.steps is not None:
            return 1 - (self._steps or 0) / max(1, self._limits.steps)
        left = self._ends - time.perf_counter()
        return min(1.0, 1 - left / self._limits.seconds) if 0 < self._limits.seconds < float("inf") else 0.0

    def take(self, steps: int) -> int:
        """Draw up to that many steps; 0 where the limits are met."""
        if self.over:
            return 0
        if self._steps is None:
            return steps
        drawn = min(steps, self._steps)
        self._steps -= drawn
        return drawn

    def give_back(self, steps: int) -> None:
        """Steps that were drawn and not made."""
        if self._steps is not None:
            self._steps += steps

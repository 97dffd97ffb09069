"""How long a search may take."""

import time
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Limits:
    """The first limit that is met ends a search. With `steps`, no met `seconds` and one worker it is reproducible.

    steps: neighbours that annealing looks at; CP-SAT gets as much of its deterministic time as they take.
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


class Clock:
    """Counts down limits from now on."""

    def __init__(self, limits: Limits) -> None:
        self._ends = time.perf_counter() + limits.seconds
        self._steps = limits.steps

    def take(self, steps: int) -> int:
        """Draw up to that many steps; 0 where the limits are met."""
        if time.perf_counter() >= self._ends:
            return 0
        if self._steps is None:
            return steps
        drawn = min(steps, self._steps)
        self._steps -= drawn
        return drawn

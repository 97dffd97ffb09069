"""How fast steps go by, and when the last one will be done."""

import time
from collections import deque
from collections.abc import Callable

WINDOW = 20  # steps that the pace is taken over: it follows when responses grow longer


class Pace:
    """Seconds per step over the last steps, from the making of this object or a first mark at `first_step`."""

    def __init__(self, *, total_steps: int, first_step: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total_steps
        self._clock = clock
        self._marks: deque[tuple[int, float]] = deque([(first_step, clock())], maxlen=WINDOW + 1)

    def step_done(self, step: int) -> None:
        if step == self._marks[-1][0]:  # validation before the first step: the clock starts after it
            self._marks.pop()
        self._marks.append((step, self._clock()))

    @property
    def seconds_per_step(self) -> float | None:
        """None before the first step."""
        (first, began), (last, ended) = self._marks[0], self._marks[-1]
        return (ended - began) / (last - first) if last > first else None

    @property
    def seconds_left(self) -> float | None:
        pace = self.seconds_per_step
        return None if pace is None else max(0, self._total - self._marks[-1][0]) * pace


def duration(seconds: float | None) -> str:
    """ "1h02m", "3m05s" or "42s"; "?" where it is not known."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{whole % 60:02d}s" if minutes else f"{whole}s"

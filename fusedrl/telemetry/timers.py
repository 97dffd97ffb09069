"""Named stop-watches of a step: `with timers("gen"): ...` adds to timing_s/gen."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Span = tuple[str, int, int]  # name, start and end in ns
PHASE = "phase: "  # of an error's note


class Timers:
    """Seconds by name since the last `collect`. Timers nest; the same name adds up.

    `synchronize` is called at both ends, so that work queued on a device counts where it was started
    (torch.cuda.synchronize). An error that ends a timed block carries its name on, the innermost first, in a note.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.perf_counter, synchronize: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._synchronize = synchronize
        self._seconds: dict[str, float] = {}
        self._spans: list[Span] = []
        self.spans: list[Span] = []  # what the last `collect` told, interval by interval

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self._synchronize()
        began = self._clock()
        try:
            yield
        except BaseException as error:
            error.add_note(f"{PHASE}{name}")
            raise
        finally:
            self._synchronize()
            ended = self._clock()
            self._seconds[name] = self._seconds.get(name, 0.0) + ended - began
            self._spans.append((name, round(began * 1e9), round(ended * 1e9)))

    def collect(self) -> dict[str, float]:
        """The seconds as metrics, timing_s/NAME, and a fresh start."""
        found = {f"timing_s/{name}": seconds for name, seconds in self._seconds.items()}
        self._seconds = {}
        self.spans, self._spans = self._spans, []
        return found

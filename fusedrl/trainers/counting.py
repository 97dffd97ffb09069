"""Progress of responses as they finish, for evaluate and generate: ten lines, and a bar on a terminal.

row 120/200  1834 tokens/s  12.3 rows/s  6s left
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console

from fusedrl.rollout.requests import Completion
from fusedrl.telemetry.progress import Progress
from fusedrl.trainers.entry import is_first_rank

LINES = 10
Told = Callable[[Sequence[Completion]], None]


@contextmanager
def counting(
    noun: str, *, total: int, first: int = 0, by_response: bool = False, console: Console | None = None
) -> Iterator[Told]:
    """Gives what is to hear of finished responses: with by_response each counts, else each call does. On ranks other
    than the first it says nothing."""
    if not is_first_rank():
        yield lambda finished: None
        return
    progress = Progress(noun, total=total, first=first, lines=LINES, console=console)
    tokens, began = 0, perf_counter()

    def told(finished: Sequence[Completion]) -> None:
        nonlocal tokens
        tokens += sum(len(each.tokens) for each in finished)
        rate = f"{tokens / max(perf_counter() - began, 1e-9):.0f} tokens/s"
        progress.done(rate, count=len(finished) if by_response else 1)

    try:
        yield told
    finally:
        progress.close()

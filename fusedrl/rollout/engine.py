"""What every generation engine has, and a whole batch by it.

add(requests)            requests wait
step() -> completions    some work on those under way; the samples that are done now
unfinished               samples that wait or are being generated
"""

from collections.abc import Sequence
from typing import Protocol

from fusedrl.rollout.requests import Completion, Request


class Steps(Protocol):
    """An engine as `generate_all` needs it."""

    @property
    def unfinished(self) -> int: ...

    def add(self, requests: Sequence[Request]) -> None: ...

    def step(self) -> list[Completion]: ...


def generate_all(engine: Steps, requests: Sequence[Request]) -> list[Completion]:
    """All completions, in sample-id order. The engine must be idle."""
    if engine.unfinished:
        raise RuntimeError(f"generate() on an engine with {engine.unfinished} unfinished samples: step() these first")
    engine.add(requests)
    completions: list[Completion] = []
    while engine.unfinished:
        completions += engine.step()
    return sorted(completions, key=lambda c: c.sample_id)

from collections.abc import Sequence

import pytest

from fusedrl.rollout.engine import generate_all
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams


class LastFirst:
    """Finishes one sample a step, the last that came first."""

    def __init__(self) -> None:
        self.waiting: list[Request] = []

    @property
    def unfinished(self) -> int:
        return len(self.waiting)

    def add(self, requests: Sequence[Request]) -> None:
        self.waiting += requests

    def step(self) -> list[Completion]:
        done = self.waiting.pop()
        options = {"tokens": (7,), "logprobs": (-1.0,), "finish_reason": "stop"}
        return [Completion(sample_id=done.sample_id, prompt=done.prompt, **options)]  # type: ignore[arg-type]


def requests(*ids: int) -> list[Request]:
    return [Request(sample_id=i, prompt=(i,), params=SamplingParams()) for i in ids]


def test_all_completions_come_in_the_order_of_their_ids() -> None:
    found = generate_all(LastFirst(), requests(4, 1, 3))
    assert [each.sample_id for each in found] == [1, 3, 4]


def test_an_engine_that_is_not_idle_is_refused() -> None:
    engine = LastFirst()
    engine.add(requests(9))
    with pytest.raises(RuntimeError, match="with 1 unfinished samples"):
        generate_all(engine, requests(1))
    assert engine.unfinished == 1

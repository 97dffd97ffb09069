"""Prompts are dealt to the replicas alike on every rank, and every sample comes out once."""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from fusedrl.rollout.requests import Completion, Request, samples_of
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.trainers import flowing
from fusedrl.trainers.flowing import STEPS, deal, flow


def prompts(count: int, *, n: int) -> list[list[Request]]:
    return [samples_of({index: (7, index)}, n=n, params=SamplingParams()) for index in range(count)]


class OneAStep:
    """An engine that ends its oldest sample at each step."""

    def __init__(self) -> None:
        self.waiting: deque[Request] = deque()
        self.most = self.steps = 0

    @property
    def unfinished(self) -> int:
        return len(self.waiting)

    def add(self, requests: Any) -> None:
        self.waiting.extend(requests)
        self.most = max(self.most, self.unfinished)

    def step(self) -> list[Completion]:
        request, self.steps = self.waiting.popleft(), self.steps + 1
        mine = {"sample_id": request.sample_id, "prompt": request.prompt}
        return [Completion(**mine, tokens=(1,), logprobs=(-0.5,), finish_reason="stop")]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flowing, "all_gather_object", lambda value, *, group: [value])


ALONE: Any = SimpleNamespace(size=lambda: 1, rank=lambda: 0)


@pytest.mark.parametrize(("in_flight", "most"), [(6, 8), (40, 40)])  # whole prompts; more than a meeting's steps end
def test_every_sample_comes_once_and_the_engine_is_never_given_all(in_flight: int, most: int) -> None:
    engine = OneAStep()
    found = [each for part in flow(engine, prompts(20, n=4), in_flight=in_flight, dp_group=ALONE) for each in part]
    assert sorted(each.sample_id for each in found) == list(range(80))
    assert all(each.prompt == (7, each.sample_id // 4) for each in found)
    assert engine.most == most
    assert engine.steps == 80


def test_samples_come_out_while_others_wait() -> None:
    engine = OneAStep()
    first = next(flow(engine, prompts(20, n=4), in_flight=STEPS, dp_group=ALONE))
    assert [each.sample_id for each in first] == list(range(STEPS))


def test_an_engine_that_is_at_work_is_refused() -> None:
    engine = OneAStep()
    engine.add(prompts(1, n=1)[0])
    with pytest.raises(RuntimeError, match="1 unfinished"):
        next(flow(engine, [], in_flight=1, dp_group=ALONE))


def test_the_replica_with_fewest_gets_the_next_prompt_until_all_have_enough() -> None:
    waiting = deque(prompts(9, n=2))
    dealt = [(replica, requests[0].sample_id // 2) for replica, requests in deal(waiting, [3, 0, 5], in_flight=4)]
    assert dealt == [(1, 0), (1, 1), (0, 2)]
    assert len(waiting) == 6
    assert [replica for replica, _ in deal(waiting, [0, 0], in_flight=99)] == [0, 1] * 3
    assert list(deal(waiting, [0], in_flight=1)) == []

"""What the simulator is told of a step, and whether it is asked at all. Choices on ranks: test_stream_costs.py."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fusedrl.config.schema import RolloutConfig
from fusedrl.config.schema.policy import StreamConfig
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.step_times import StepTimes
from fusedrl.stream.control import Policy
from fusedrl.stream.costs import Link
from fusedrl.stream.instance import Place
from fusedrl.stream.simulator import Simulator
from fusedrl.trainers import migration_choice, stream_costs
from fusedrl.trainers.migration_choice import ALWAYS, MigrationChoice, batch_of

PLACE = Place(instance=0, member=0, ranks=[(0,), (1,)])
LINK = Link(bytes_per_token=3, bytes_per_ms=5.0)


def requests() -> list[Request]:
    """Two long prompts with two samples each, three short ones with one."""
    prompts = {0: (1,) * 9, 1: (2,) * 8, 2: (3, 3), 3: (4,), 4: (5,)}
    ids = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 3), (6, 4)]
    params = SamplingParams(max_tokens=4)
    return [Request(sample_id=each, prompt=prompts[prompt], params=params) for each, prompt in ids]


def test_a_step_is_told_by_shares_prompts_and_their_copies() -> None:
    found = batch_of(requests(), instances=2)
    assert found.share_I.tolist() == [4, 3]
    assert len(found.length_N) == 7
    # instance 0: a long prompt twice, two short ones; copies of a prompt have one number
    assert found.prompt_N.tolist() == [9, 9, 1, 1, 8, 8, 2]
    assert found.source_N.tolist() == [0, 0, 1, 2, 3, 3, 4]


def choice(monkeypatch: pytest.MonkeyPatch, **config: Any) -> MigrationChoice:
    """Of rank 0 of two, without the other one."""
    monkeypatch.setattr(migration_choice, "broadcast_object", lambda value: value)
    monkeypatch.setattr(migration_choice, "gathered", lambda times: times)
    monkeypatch.setattr(migration_choice, "measured_link", lambda place, **_: LINK)
    monkeypatch.setattr(migration_choice, "leads", lambda: True)
    engine: Any = SimpleNamespace(times=StepTimes(), max_rows=32, bytes_per_token=8)
    readers: Any = SimpleNamespace(times=StepTimes(), tasks=("ref",), device=torch.device("cpu"))
    rollout = RolloutConfig(**{"inference": "instances", "streaming": True, **config})
    return MigrationChoice(rollout, place=PLACE, engine=engine, readers=readers)


@pytest.mark.parametrize(
    ("config", "policy", "link"),
    [
        ({"streaming": False}, Policy(streaming=False), None),
        ({"streaming": False, "migration_threshold": 3, "migration_destinations": 1}, Policy(streaming=False), None),
        ({"migration": False}, Policy(), None),
        ({"migration_threshold": 3, "migration_destinations": 1}, Policy(r_t=3, m=1), LINK),
        ({"migration_by": "cache"}, Policy(), ALWAYS),
        ({"migration_by": "prefill"}, Policy(), None),
    ],
)
def test_policy_and_way_follow_the_configuration(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], policy: Policy, link: Link | None
) -> None:
    found, costs = choice(monkeypatch, **config).next(requests(), migrates=True)
    assert found == policy
    assert costs.link == link
    assert costs.max_rows == 32


def test_the_simulator_has_the_streams_units_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, int]] = []

    class Watched(Simulator):
        def __init__(self, costs: Any, **options: int) -> None:
            made.append(options)
            super().__init__(costs, **options)

    chooser = choice(monkeypatch, stream=StreamConfig(unit_size=3, chunk_tokens=99))
    monkeypatch.setattr(migration_choice, "Simulator", Watched)
    chooser.next(requests(), migrates=True)
    assert made == [{"unit_size": 3, "chunk_tokens": 99}]


def test_the_links_pace_is_that_of_the_slowest_rank_without_its_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = 1 << 10, 1 << 20
    mine = {small: 2.0, large: 10.0}
    monkeypatch.setattr(stream_costs, "_message_ms", lambda place, *, size, device: mine[size])
    monkeypatch.setattr(stream_costs, "all_gather_object", lambda value: [value, [3.0, 7.0]])
    found = stream_costs.measured_link(PLACE, bytes_per_token=6, device=torch.device("cpu"))
    assert found == Link(bytes_per_token=6, bytes_per_ms=(large - small) / (10.0 - 3.0), latency_ms=3.0)
    alone = Place(instance=0, member=0, ranks=[(0, 1)])
    assert stream_costs.measured_link(alone, bytes_per_token=6, device=torch.device("cpu")) is None

"""Choices of a policy on gloo ranks, from given times."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.config.schema import RolloutConfig
from fusedrl.rollout.requests import Request, samples_of
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.step_times import StepTimes
from fusedrl.stream.instance import Place
from fusedrl.trainers.migration_choice import MigrationChoice
from fusedrl.trainers.stream_costs import measured_link

CONFIG = RolloutConfig(inference="instances", streaming=True)
TASKS = ("ref", "critic")


def choices() -> dict[str, Any]:
    place = Place(instance=dist.get_rank(), member=0, ranks=[(0,), (1,)])
    link = measured_link(place, bytes_per_token=8, device=torch.device("cpu"))
    assert link is not None
    given = {"migration_threshold": 5, "migration_destinations": 1}
    long_tailed = [5] * 30 + [400] * 2
    return {
        "link": (link.latency_ms, link.bytes_per_ms),
        "given": _choose(place, replace(CONFIG, **given), lengths=()),
        "off": _choose(place, replace(CONFIG, migration=False), lengths=long_tailed),
        "unseen": _choose(place, CONFIG, lengths=()),
        "kept": _choose(place, CONFIG, lengths=long_tailed, migrates=False),
        "chosen": _choose(place, CONFIG, lengths=long_tailed),
        "scored": _scored(place),
    }


def _choose(place: Place, config: RolloutConfig, *, lengths: Any, migrates: bool = True) -> tuple[int, int]:
    """Decode steps that hardly depend on the batch, inference that takes long: a tail had better move."""
    times, read = StepTimes(), StepTimes()
    for rows in (1, 16):
        times.decoded(rows, ms=1.0 + rows / 100)
    times.prefilled(100, ms=0.1)
    for task in TASKS:
        read.inferred(task, 100, ms=200.0)
    engine: Any = SimpleNamespace(times=times, max_rows=32, bytes_per_token=8)
    readers: Any = SimpleNamespace(times=read, tasks=TASKS, device=torch.device("cpu"))
    choice = MigrationChoice(config, place=place, engine=engine, readers=readers)
    choice.observe(lengths)
    policy, _ = choice.next(_requests(), migrates=migrates)
    return policy.r_t, policy.m


def _scored(place: Place) -> list[list[float]]:
    """Milliseconds and workers of a reward function that rank 0 has: after a call, after none, after another."""
    nothing: Any = SimpleNamespace(times=StepTimes(), max_rows=32, bytes_per_token=8)
    readers: Any = SimpleNamespace(times=StepTimes(), tasks=TASKS, device=torch.device("cpu"))
    scorer: Any = SimpleNamespace(times=StepTimes(), workers=3) if place.leads and place.instance == 0 else None
    choice = MigrationChoice(CONFIG, place=place, engine=nothing, readers=readers, scorer=scorer)
    found = []
    for ms in (6.0, None, 12.0):
        if scorer is not None and ms is not None:
            scorer.times.scored(ms=ms)
        _, costs = choice.next(_requests(), migrates=True)
        found.append([costs.score_ms, costs.score_workers])
    return found


def _requests() -> list[Request]:
    return samples_of([(i, 1, 2) for i in range(8)], n=4, params=SamplingParams(max_tokens=512))

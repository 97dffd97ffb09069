from pathlib import Path
from typing import Any

import pytest
import torch

from tests.distributed import trainer_jobs as jobs
from tests.distributed.pool import RankPool


def train(ranks: RankPool, folder: str, *, world: int, **options: Any) -> list[dict[str, Any]]:
    return ranks.run("tests.distributed.trainer_jobs:train", world=world, folder=folder, **options)


@pytest.mark.parametrize(("world", "tp", "pp"), [(2, 1, 2), (4, 1, 2), (4, 2, 2), (4, 1, 4)])
def test_fused_training_is_bit_equal_to_serial(ranks: RankPool, tmp_path: Path, world: int, tp: int, pp: int) -> None:
    folder = jobs.folder_of(tmp_path)
    options = {"world": world, "tp": tp, "pp": pp, "actor_micro": 1, "critic_micro": 2}
    fused = train(ranks, folder, method="fused", **options)
    serial = train(ranks, folder, method="serial", **options)
    for mine, theirs in zip(fused, serial, strict=True):
        assert mine["metrics"] == theirs["metrics"]
        assert all(torch.equal(a, b) for a, b in zip(mine["state"], theirs["state"], strict=True))


@pytest.mark.parametrize(
    ("placement", "method", "tied"),
    [
        ("line", "fused_split", False),
        ("v", "zero_bubble", False),
        ("v", "fused_split", True),
        ("interleaved", "interleaved", True),
    ],
)
def test_split_and_placed_training_is_bit_equal_to_serial(
    ranks: RankPool, tmp_path: Path, placement: str, method: str, tied: bool
) -> None:
    folder = jobs.folder_of(tmp_path, tied=tied)
    options = {"world": 2, "tp": 1, "pp": 2, "actor_micro": 1, "critic_micro": 2, "placement": placement}
    made, serial = (train(ranks, folder, method=each, **options) for each in (method, "serial"))
    for mine, theirs in zip(made, serial, strict=True):
        assert mine["metrics"] == theirs["metrics"]
        assert all(torch.equal(a, b) for a, b in zip(mine["state"], theirs["state"], strict=True))


def test_metrics_are_invariant_to_layout_and_micro_batches(ranks: RankPool, tmp_path: Path) -> None:
    folder = jobs.folder_of(tmp_path)
    alone = train(ranks, folder, world=1, tp=1, pp=1, method="serial", actor_micro=8, critic_micro=8)[0]
    spread = train(ranks, folder, world=4, tp=1, pp=2, method="fused", actor_micro=1, critic_micro=2)[0]
    assert alone["mean"] == pytest.approx(spread["mean"], abs=1e-5)
    for one, other in zip(alone["metrics"], spread["metrics"], strict=True):
        assert one == pytest.approx(other, abs=2e-5)


def test_first_epoch_starts_at_ratio_one(ranks: RankPool, tmp_path: Path) -> None:
    folder = jobs.folder_of(tmp_path)
    first = train(ranks, folder, world=2, tp=1, pp=2, method="fused", actor_micro=4, critic_micro=4)[0]["metrics"][0]
    assert first["actor/ppo_kl"] == pytest.approx(0.0, abs=1e-6)
    assert first["actor/pg_clipfrac"] == 0.0

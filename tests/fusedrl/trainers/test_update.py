from pathlib import Path
from typing import Any

import pytest
import torch

from fusedrl.config.budgets import Budget
from fusedrl.pipeline.stage import LossFunction
from fusedrl.trainers.update import Learner, shapes_ahead
from tests.distributed import trainer_jobs as jobs
from tests.distributed.pool import RankPool
from tests.fusedrl.trainers.test_cutting import role


def train(ranks: RankPool, folder: str, *, world: int, **options: Any) -> list[dict[str, Any]]:
    return ranks.run("tests.distributed.trainer_jobs:train", world=world, folder=folder, **options)


def test_shapes_of_micro_batches_are_those_of_the_mini_batch_s_own_rows() -> None:
    samples, rows_N = jobs.random_samples(16), torch.tensor([9, 3, 12, 5])
    assert samples.lengths_B[rows_N].tolist() == [7, 9, 3, 9]
    by_samples = Learner(role(dp=2, rank=1), 1, loss=unused)
    by_tokens = Learner(role(dp=1, rank=0), 1, loss=unused, budget=Budget(18, "key"))
    found = shapes_ahead({"actor": by_samples, "critic": by_tokens}, samples, rows_N)
    assert found == {"actor": ((1, 3), (1, 9)), "critic": ((2, 9), (2, 7))}


def unused(mask_NR: torch.Tensor) -> LossFunction:
    raise AssertionError("shapes need no loss")


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
    ("actor", "critic", "tokens"),
    [((1, 4), (1, 2), (0, 0)), ((1, 2), (2, 2), (16, 24))],
    ids=["pp4-pp2_dp2", "pp2_dp2-tp2_pp2"],
)
def test_training_of_unequal_layouts_is_bit_equal_to_serial_and_as_on_one_rank(
    ranks: RankPool, tmp_path: Path, actor: tuple[int, int], critic: tuple[int, int], tokens: tuple[int, int]
) -> None:
    """Also the inference before, which is one pass of both models."""
    folder = jobs.folder_of(tmp_path)
    micro = {"actor_micro": 1, "critic_micro": 2}
    options = {"world": 4, "tp": actor[0], "pp": actor[1], "critic_sizes": critic, "tokens": tokens, **micro}
    fused, serial = (train(ranks, folder, method=method, **options) for method in ("fused", "serial"))
    for mine, theirs in zip(fused, serial, strict=True):
        assert mine["metrics"] == theirs["metrics"] == fused[0]["metrics"]
        assert all(torch.equal(a, b) for a, b in zip(mine["state"], theirs["state"], strict=True))
    alone = train(ranks, folder, world=1, tp=1, pp=1, method="serial", actor_micro=8, critic_micro=8)[0]
    assert fused[0]["mean"] == pytest.approx(alone["mean"], abs=1e-5)
    for one, other in zip(fused[0]["metrics"], alone["metrics"], strict=True):
        assert one == pytest.approx(other, abs=2e-5)


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


@pytest.mark.parametrize(
    ("world", "tp", "placement", "method", "multiple"),
    [(4, 1, "line", "fused", 1), (4, 2, "v", "fused_split", 1), (2, 1, "interleaved", "interleaved", 2)],
)
def test_ragged_training_by_token_budgets_is_bit_equal_to_serial(
    ranks: RankPool, tmp_path: Path, world: int, tp: int, placement: str, method: str, multiple: int
) -> None:
    """Micro-batches of unlike rows and lengths, their number another each update and for each model."""
    folder = jobs.folder_of(tmp_path)
    options = {"world": world, "tp": tp, "pp": 2, "placement": placement, "actor_micro": 1, "critic_micro": 1}
    budgets = {"tokens": (16, 24), "multiple": multiple, "profile": False}  # planned times: counted, not measured
    made, serial = (train(ranks, folder, method=each, **options, **budgets) for each in (method, "serial"))
    assert made[0]["planned"] == serial[0]["planned"]
    assert all(len(set(times)) > 1 for times in made[0]["planned"])
    assert len({len(times) for times in made[0]["planned"]}) > 1
    assert all(len(times) % multiple == 0 for times in made[0]["planned"])
    for mine, theirs in zip(made, serial, strict=True):
        assert mine["metrics"] == theirs["metrics"]
        assert all(torch.equal(a, b) for a, b in zip(mine["state"], theirs["state"], strict=True))


def test_loss_gradient_norm_and_metrics_are_invariant_to_token_budgets(ranks: RankPool, tmp_path: Path) -> None:
    folder = jobs.folder_of(tmp_path)
    whole = train(ranks, folder, world=1, tp=1, pp=1, method="serial", actor_micro=8, critic_micro=8)[0]
    options = {"tp": 1, "pp": 2, "method": "fused", "actor_micro": 1, "critic_micro": 1}
    for world, tokens in ((2, (16, 24)), (4, (11, 40))):
        found = train(ranks, folder, world=world, tokens=tokens, **options)[0]
        assert found["mean"] == pytest.approx(whole["mean"], abs=1e-5)
        assert found["metrics"][0] == pytest.approx(whole["metrics"][0], rel=1e-6, abs=1e-6)
        for one, other in zip(found["metrics"], whole["metrics"], strict=True):
            assert one == pytest.approx(other, abs=2e-5)


def test_metrics_are_invariant_to_layout_and_micro_batches(ranks: RankPool, tmp_path: Path) -> None:
    folder = jobs.folder_of(tmp_path)
    alone = train(ranks, folder, world=1, tp=1, pp=1, method="serial", actor_micro=8, critic_micro=8)[0]
    spread = train(ranks, folder, world=4, tp=1, pp=2, method="fused", actor_micro=1, critic_micro=2)[0]
    assert alone["mean"] == pytest.approx(spread["mean"], abs=1e-5)
    for one, other in zip(alone["metrics"], spread["metrics"], strict=True):
        assert one == pytest.approx(other, abs=2e-5)


@pytest.mark.parametrize(
    ("world", "keys"),
    [(4, {"context_parallel_size": 2}), (2, {"use_remove_padding": True})],
    ids=["shared-rows", "packed-rows"],
)
def test_rows_shared_by_ranks_or_packed_train_the_same_bits_in_every_order_and_as_whole_rows_on_one_rank(
    ranks: RankPool, tmp_path: Path, world: int, keys: dict[str, Any]
) -> None:
    """Losses, gradient norms and metrics, none of them once for each rank of a row."""
    folder = jobs.folder_of(tmp_path)
    options = {"world": world, "pp": 2, "tp": 1, "actor_micro": 2, "critic_micro": 4, "keys": keys}
    fused, serial = (train(ranks, folder, method=method, **options) for method in ("fused", "serial"))
    for mine, theirs in zip(fused, serial, strict=True):
        assert mine["metrics"] == theirs["metrics"]
        assert all(torch.equal(a, b) for a, b in zip(mine["state"], theirs["state"], strict=True))
    alone = train(ranks, folder, world=1, tp=1, pp=1, method="serial", actor_micro=8, critic_micro=8)[0]
    assert fused[0]["mean"] == pytest.approx(alone["mean"], abs=1e-5)
    assert fused[0]["metrics"][0] == pytest.approx(alone["metrics"][0], rel=1e-5, abs=1e-6)
    for one, other in zip(fused[0]["metrics"], alone["metrics"], strict=True):
        assert one == pytest.approx(other, abs=2e-5)


def test_first_epoch_starts_at_ratio_one(ranks: RankPool, tmp_path: Path) -> None:
    folder = jobs.folder_of(tmp_path)
    first = train(ranks, folder, world=2, tp=1, pp=2, method="fused", actor_micro=4, critic_micro=4)[0]["metrics"][0]
    assert first["actor/ppo_kl"] == pytest.approx(0.0, abs=1e-6)
    assert first["actor/pg_clipfrac"] == 0.0

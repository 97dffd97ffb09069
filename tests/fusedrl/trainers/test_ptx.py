from pathlib import Path
from typing import Any

import pytest
import torch

from fusedrl.trainers.ptx import make_ptx
from tests.distributed import trainer_jobs as jobs
from tests.distributed.pool import RankPool
from tests.fusedrl.config.conftest import ppo
from tests.fusedrl.trainers.ptx_jobs import COEFF, ptx_of


def train(ranks: RankPool, folder: str, *, world: int, **options: Any) -> list[dict[str, Any]]:
    return ranks.run("tests.fusedrl.trainers.ptx_jobs:gradients", world=world, folder=folder, **options)


def test_gradients_of_one_pass_are_the_policy_s_and_the_weighted_answers(ranks: RankPool, tmp_path: Path) -> None:
    """On replicas and stages as on one rank: the answers' loss is a mean over the labels of all replicas."""
    folder = jobs.folder_of(tmp_path)
    (alone,) = train(ranks, folder, world=1, tp=1, pp=1)
    spread = train(ranks, folder, world=4, tp=1, pp=2)
    for each in (alone, *spread):
        policy, answers, both = (torch.tensor(each[name]) for name in ("policy", "answers", "both"))
        assert policy.abs().max() > 1e-3
        assert answers.abs().max() > 1e-2
        torch.testing.assert_close(both, policy + answers, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(answers, COEFF * torch.tensor(each["unweighted"]), atol=1e-7, rtol=1e-5)
        assert each["unweighted/metric"] == each["answers/metric"]  # told without the weight
        assert each["both/metric"] == each["answers/metric"] == pytest.approx(alone["answers/metric"], rel=1e-5)
    assert len({tuple(each["answers"]) for each in spread}) == 2  # replicas agree, stages differ
    norms = [sum(torch.tensor(x["both"]).square().sum().item() for x in held) for held in ([alone], spread)]
    assert norms[1] / 2 == pytest.approx(norms[0], rel=1e-5)  # each stage is on two replicas


def test_an_actor_on_some_of_the_ranks_learns_the_same_answers(ranks: RankPool, tmp_path: Path) -> None:
    folder = jobs.folder_of(tmp_path)
    everywhere = train(ranks, folder, world=2, tp=1, pp=2)
    some = train(ranks, folder, world=3, tp=1, pp=2, on="1-2")
    assert some[0]["both"] == []
    assert [each["both"] for each in some[1:]] == [each["both"] for each in everywhere]
    assert {tuple(each["both/metric"]) for each in some} == {tuple(everywhere[0]["both/metric"])}


def test_an_optimizer_step_takes_the_rows_of_its_number_in_the_run() -> None:
    """Whatever was taken before: a resumed run takes what an uninterrupted one does."""
    ptx, in_turn = ptx_of(11), ptx_of(11).source
    expected = [in_turn.next(8).tokens_BS for _ in range(4)]
    for step, number in ((2, 1), (1, 0), (2, 0), (1, 1)):
        assert torch.equal(ptx.rows(step, number).tokens_BS, expected[2 * (step - 1) + number])


def test_a_coefficient_of_zero_reads_nothing() -> None:
    assert make_ptx(ppo(), None, steps=1) is None  # type: ignore[arg-type]

"""What is known to break pipelines elsewhere (docs/pitfalls.md) and had no test of its own."""

import math
from itertools import pairwise

import numpy as np
import pytest

from tests.distributed.pool import RankPool

JOBS = "tests.fusedrl.pipeline.hazard_jobs:"


def test_every_pair_has_spoken_on_its_group_before_a_pass_and_no_group_is_born_in_one(ranks: RankPool) -> None:
    """Groups are made and first used together in one sequence on all ranks; a pass makes and warms up nothing."""
    logs = ranks.run(JOBS + "opened", world=3)
    channels = range(4)  # the actor's F and B, the critic's; the executor meets once on the world's group, too
    shared = [
        [e for e in before if e[0] == "new group" or (e[0] == "together" and e[1] in channels)] for before, _ in logs
    ]
    made = [entry for group in channels for entry in (("new group", (0, 1, 2)), ("together", group))]
    assert shared == [made] * 3
    assert all(during == [] for _, during in logs)
    forward = list(pairwise(range(3)))
    back = [(b, a) for a, b in forward]
    for group, pairs in enumerate([forward, back, back, forward]):
        sent = {(r, e[2]) for r, (before, _) in enumerate(logs) for e in before if e[:2] == ("send", group)}
        received = {(e[2], r) for r, (before, _) in enumerate(logs) for e in before if e[:2] == ("receive", group)}
        assert sent == received == set(pairs)
    for before, _ in logs:
        own = [entry[1] for entry in before if entry[0] != "new group"]
        assert own == sorted(own)  # a group's collective, then its messages, then the next group's


def test_hundreds_of_messages_of_a_pass_arrive_and_at_most_four_are_under_way(ranks: RankPool) -> None:
    one, two = ranks.run(JOBS + "hundreds", world=2, count=300)
    (whole,) = ranks.run(JOBS + "hundreds", world=1, count=300, depth=2)
    assert (one.pop("most"), two.pop("most"), whole.pop("most")) == (4, 4, 0)
    check_same(whole, one | two)


@pytest.mark.parametrize("world", [2, 4])
def test_models_of_two_dtypes_share_a_pass(ranks: RankPool, world: int) -> None:
    parts = ranks.run(JOBS + "two_dtypes", world=world)
    (whole,) = ranks.run(JOBS + "two_dtypes", world=1, depth=world)
    found = {key: value for part in parts for key, value in part.items()}
    assert {str(value.dtype) for key, value in found.items() if "critic" in key} == {"float32"}
    assert {str(value.dtype) for key, value in found.items() if "actor" in key} == {"float64"}
    check_same(whole, found)


def test_a_message_of_another_dtype_than_its_model_s_is_refused(ranks: RankPool) -> None:
    errors = ranks.run(JOBS + "wrong_dtype", world=2)
    assert any("made [1, 3, 6] torch.float64, the next stage waits for [1, 3, 6] torch.float32" in e for e in errors)


def test_each_model_is_clipped_by_its_own_norm_over_all_its_stages(ranks: RankPool) -> None:
    plain, loud = (ranks.run(JOBS + "clipped", world=2, scale=scale) for scale in (1.0, 1024.0))
    for name in ("actor", "critic"):
        norm = math.sqrt(sum(rank[name]["squared"] for rank in plain))
        assert all(rank[name]["norm"] == pytest.approx(norm, rel=1e-6) for rank in plain)
        assert norm > 0.5  # it is clipped
    for one, other in zip(plain, loud, strict=True):
        assert other["actor"]["norm"] == pytest.approx(1024 * one["actor"]["norm"], rel=1e-6)
        assert other["critic"]["norm"] == one["critic"]["norm"]
        assert all(map(np.array_equal, one["critic"]["params"], other["critic"]["params"]))


def test_models_that_train_have_no_dropout(ranks: RankPool) -> None:
    assert ranks.run(JOBS + "forwards_in_training_mode", world=1) == [True]


def check_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    assert all(np.array_equal(value, other[key]) for key, value in one.items())

"""Rows of micro-batches as every rank of a job sees them; a role is its layout and its place among the replicas."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fusedrl.config.budgets import Budget
from fusedrl.pipeline.tokens import WholeRows
from fusedrl.trainers.cutting import replica_groups
from fusedrl.trainers.roles import Role

LENGTHS = torch.tensor([9, 2, 5, 4, 8, 1, 3, 4])


def role(*, dp: int, rank: int) -> Any:
    place = SimpleNamespace(
        name="actor",
        held=True,
        device=torch.device("cpu"),
        layout=SimpleNamespace(dp=dp),
        groups=SimpleNamespace(dp=SimpleNamespace(rank=lambda: rank)),
        pipeline=SimpleNamespace(tokens=WholeRows()),
    )
    place.share = lambda size: Role.share(place, size)
    return place


def groups(*, dp: int, rank: int = 0, **cut: Any) -> list[list[int]]:
    return [rows_B.tolist() for rows_B in replica_groups(role(dp=dp, rank=rank), LENGTHS, **cut)]


def test_by_samples_a_replica_takes_its_contiguous_share() -> None:
    assert groups(dp=2, rank=1, micro_batch=3, budget=None) == [[4, 5, 6], [7]]


@pytest.mark.parametrize("dp", [1, 2, 4])
def test_by_tokens_replicas_share_all_samples_in_equally_many_micro_batches(dp: int) -> None:
    budget = Budget(18, "key")
    found = [groups(dp=dp, rank=rank, micro_batch=3, budget=budget) for rank in range(dp)]
    assert {len(share) for share in found} == {{1: 3, 2: 2, 4: 1}[dp]}
    assert sorted(row for share in found for rows in share for row in rows) == list(range(8))
    assert all(len(rows) * int(LENGTHS[rows].max()) <= 18 for share in found for rows in share)


def test_a_budget_hands_on_its_key_and_its_multiple() -> None:
    with pytest.raises(ValueError, match=r"^some\.key=8 is below the 9 tokens"):
        groups(dp=1, micro_batch=3, budget=Budget(8, "some.key"))
    assert len(groups(dp=2, micro_batch=3, budget=Budget(18, "key", multiple=4))) == 4


def test_a_budget_hands_on_what_rows_are_padded_to() -> None:
    assert groups(dp=1, micro_batch=3, budget=Budget(18, "key"))[0] != [0]
    for rows in groups(dp=1, micro_batch=3, budget=Budget(18, "key", pads_to=5)):
        assert len(rows) * -(-int(LENGTHS[rows].max()) // 5) * 5 <= 18

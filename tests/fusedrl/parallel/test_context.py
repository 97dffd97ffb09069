import pytest
import torch

from fusedrl.parallel.context import gathered_positions, share_positions
from tests.distributed.pool import RankPool

CPU = torch.device("cpu")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_shares_hold_every_position_once_and_have_equal_causal_work(size: int) -> None:
    length = 12 * size
    shares = [share_positions(length, size=size, rank=rank, device=CPU) for rank in range(size)]
    assert sorted(torch.cat(shares).tolist()) == list(range(length))
    assert len({int((share + 1).sum()) for share in shares}) == 1  # keys that the tokens of a share look at
    assert gathered_positions(length, size=size, device=CPU).tolist() == torch.cat(shares).tolist()


def test_share_is_the_first_and_the_last_chunk() -> None:
    assert share_positions(8, size=2, rank=0, device=CPU).tolist() == [0, 1, 6, 7]
    assert share_positions(8, size=2, rank=1, device=CPU).tolist() == [2, 3, 4, 5]


def test_rows_that_are_not_equal_chunks_are_refused() -> None:
    with pytest.raises(AssertionError, match="6 tokens is not 2 x 2"):
        share_positions(6, size=2, rank=0, device=CPU)


def test_parts_come_rank_after_rank_and_results_in_order(ranks: RankPool) -> None:
    found = ranks.run("tests.distributed.context_jobs:gathered", world=2, length=8)
    for each in found:
        assert each["parts"] == found[0]["own"] + found[1]["own"]
        assert each["results"] == [list(range(8)), [2 * position for position in range(8)]]


def test_gradients_of_parts_are_summed_and_those_of_results_are_not(ranks: RankPool) -> None:
    for each in ranks.run("tests.distributed.context_jobs:gathered", world=2, length=8):
        assert each["to_parts"] == [1.0 + 2.0] * 4
        assert each["to_results"] == [3.0 * position for position in each["own"]]

import pytest

from tests.distributed.pool import RankPool


def agree(ranks: RankPool, *, differs: bool = False, fails: bool = False) -> list[str]:
    return ranks.run("tests.distributed.planning_jobs:agree", world=2, differs=differs, fails=fails)


def test_every_rank_gets_the_order_that_rank_0_alone_makes(ranks: RankPool) -> None:
    one, other = agree(ranks)
    assert one == other
    assert [len(line.split()) for line in one.splitlines()] == [6, 6]


@pytest.mark.parametrize("fails", [False, True])
def test_all_ranks_end_with_one_line_where_one_plans_other_work_or_no_order_is_made(
    ranks: RankPool, fails: bool
) -> None:
    one, other = agree(ranks, differs=not fails, fails=fails)
    assert one == other
    assert one.startswith("error: no order can be made" if fails else "error: ranks [1] plan other work than rank 0")
    assert "\n" not in one

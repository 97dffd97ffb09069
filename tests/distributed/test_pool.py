import pytest

from tests.distributed.pool import RankFailure, RankPool


def test_ranks_join_one_world_of_the_asked_size(ranks: RankPool) -> None:
    assert ranks.run("tests.distributed.jobs:sum_of_ranks", world=2) == [1, 1]
    assert ranks.run("tests.distributed.jobs:sum_of_ranks", world=4) == [6] * 4


def test_processes_are_reused(ranks: RankPool) -> None:
    assert ranks.run("tests.distributed.jobs:pid", world=2) == ranks.run("tests.distributed.jobs:pid", world=2)


def test_failure_of_one_rank_is_reported_with_its_traceback() -> None:
    pool = RankPool()
    with pytest.raises(RankFailure, match="rank 1 was told to fail"):
        pool.run("tests.distributed.jobs:raise_on", world=2, rank=1)
    assert pool.run("tests.distributed.jobs:sum_of_ranks", world=1) == [0]
    pool.close()


def test_stuck_rank_is_reported_with_stacks() -> None:
    pool = RankPool(grace=0.5)
    pool.run("tests.distributed.jobs:pid", world=1)
    with pytest.raises(RankFailure, match=r"(?s)no answer.*jobs\.py"):
        pool.run("tests.distributed.jobs:sleep", world=1, limit=0.5, seconds=60)
    pool.close()

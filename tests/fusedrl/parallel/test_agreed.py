import pytest

from fusedrl.parallel.agreed import tried
from tests.distributed.pool import RankPool

JOB = "tests.fusedrl.parallel.agreed_jobs:raised"


def test_what_fails_on_one_rank_is_raised_by_its_group_alike_and_told_by_one(ranks: RankPool) -> None:
    said = "the file could not be written: rank 2: [Errno 28] No space left on device: 'file'"
    assert ranks.run(JOB, world=3, failing=[2], members=[1, 2]) == [None, (said, True), (said, False)]
    assert ranks.run(JOB, world=3, failing=[], members=[1, 2]) == [None] * 3


def test_only_what_may_fail_is_caught() -> None:
    def broken() -> None:
        raise KeyError("a defect")

    assert tried(lambda: None) is None
    with pytest.raises(KeyError):
        tried(broken)

from fusedrl.pipeline.clocks import Alignment, host_id
from tests.distributed.pool import RankPool

JOB = "tests.fusedrl.pipeline.timeline_jobs:aligned"
SECOND = 10**9


def test_clocks_of_other_hosts_are_found_within_the_bound_that_is_told(ranks: RankPool) -> None:
    results = ranks.run(JOB, world=4, hosts=["a", "a", "b", "c"], ahead_s=[0, 0, 7, -3])
    assert all(result == results[0] for result in results)
    offsets, errors = results[0]
    assert offsets[:2] == errors[:2] == [0, 0]
    for rank, ahead in ((2, 7), (3, -3)):
        assert abs(offsets[rank] + ahead * SECOND) <= errors[rank] < SECOND // 5


def test_ranks_of_one_host_share_a_clock(ranks: RankPool) -> None:
    hosts = [host_id()] * 2
    assert ranks.run(JOB, world=2, hosts=hosts, ahead_s=[0, 5]) == [([0, 0], [0, 0])] * 2


def test_bound_between_two_ranks_adds_the_two_worst() -> None:
    assert Alignment((0, 5, 6), (0, 20, 10)).error == 30
    assert Alignment((0,), (0,)).error == 0

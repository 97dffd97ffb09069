import pytest

from tests.distributed.pool import RankPool

JOBS = "tests.distributed.team_jobs"


def test_teams_work_side_by_side_and_the_whole_job_meets_again(ranks: RankPool) -> None:
    """Teams of ranks 0 2 and 1 3: gathers, broadcasts, layouts and hand-overs are each team's own."""
    found = ranks.run(f"{JOBS}:two_teams", world=4)
    for rank, of_rank in enumerate(found):
        own = [rank % 2, rank % 2 + 2]
        assert of_rank["before"] == of_rank["after"] == [0, 1, 2, 3]
        assert of_rank["gathered"] == own
        assert of_rank["told"] == own[0]
        assert of_rank["leads"] == (rank < 2)
        assert of_rank["place"] == rank // 2
        assert of_rank["size"] == 2
        assert of_rank["group"] == own
        assert of_rank["other"] is None, "groups of a layout that this rank is not in"
        assert of_rank["described"] == [[str(each)] if each in own else [] for each in range(4)]
        assert of_rank["moved"] == (own[0] + 1.0 if rank > 1 else None)
        assert of_rank["crossed"] == (1.0 if rank == 3 else None)


def test_a_rank_cannot_work_on_a_team_it_is_not_in(ranks: RankPool) -> None:
    assert ranks.run(f"{JOBS}:outside", world=2) == ["", "rank 1 cannot work on a team of ranks [0]: it is not in it"]


@pytest.mark.parametrize(("chosen", "reason"), [([], "a team of ranks []"), ([1, 2], "choose some of 0 to 1")])
def test_teams_of_no_ranks_or_of_others_are_refused(ranks: RankPool, chosen: list[int], reason: str) -> None:
    assert all(reason in told for told in ranks.run(f"{JOBS}:refused", world=2, chosen=chosen))

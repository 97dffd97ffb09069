import pytest

from fusedrl.parallel.layout import Layout
from tests.distributed.pool import RankPool

JOBS = "tests.distributed.parallel_jobs"


@pytest.mark.parametrize("sizes", [(2, 2, 1), (1, 2, 2), (2, 1, 2), (1, 4, 1), (1, 1, 2, 2), (2, 1, 1, 2)])
def test_every_member_spans_its_axes(ranks: RankPool, sizes: tuple[int, ...]) -> None:
    layout = Layout(*sizes)
    found = ranks.run(f"{JOBS}:members_of_groups", world=4, layout=sizes, reverse=False)
    spans = {"tp": "tp", "dp": "dp", "mp": "tp pp", "cp": "cp", "dp_cp": "cp dp", "intra_dist_opt": "tp cp dp pp"}
    for name, axes in spans.items():
        expected = {rank: list(members) for members in layout.rank_lists(axes) for rank in members}
        assert {rank: of_rank[name] for rank, of_rank in enumerate(found)} == expected, name


def test_embedding_group_joins_first_and_last_stage_only(ranks: RankPool) -> None:
    found = ranks.run(f"{JOBS}:members_of_groups", world=4, layout=(1, 4, 1), reverse=True)
    assert [of_rank.get("embd") for of_rank in found] == [[0, 3], None, None, [0, 3]]


@pytest.mark.parametrize(
    ("placement", "reverse", "ends"),
    [("v", False, [[0], None]), ("v", True, [None, [1]]), ("interleaved", False, [[0, 1], [0, 1]])],
)
def test_embedding_group_follows_the_placement(
    ranks: RankPool, placement: str, reverse: bool, ends: list[list[int] | None]
) -> None:
    """In a V first and last stage are on one rank."""
    options = {"layout": (1, 2, 1), "reverse": reverse, "placement": placement}
    found = ranks.run(f"{JOBS}:members_of_groups", world=2, **options)
    assert [of_rank.get("embd") for of_rank in found] == ends


@pytest.mark.parametrize("reverse", [False, True])
def test_stage_s_view_answers_its_stage_and_leaves_the_groups_alone(ranks: RankPool, reverse: bool) -> None:
    expected = {"rank": 3, "size": 4, "group": True, "others": True, "untouched": True}
    assert ranks.run(f"{JOBS}:stage_view", world=2, reverse=reverse) == [expected] * 2


@pytest.mark.parametrize("reverse", [False, True])
def test_reversed_pipeline_mirrors_the_stages(ranks: RankPool, reverse: bool) -> None:
    found = ranks.run(f"{JOBS}:members_of_groups", world=4, layout=(2, 2, 1), reverse=reverse)
    stages = [of_rank["stage"] for of_rank in found]
    assert stages == ([1, 1, 0, 0] if reverse else [0, 0, 1, 1])
    assert found[1]["stages"] == ((3, 1) if reverse else (1, 3))


@pytest.mark.parametrize(("member", "sums"), [("tp", [1, 1, 5, 5]), ("pp", [2, 4, 2, 4]), ("mp", [6] * 4)])
def test_communicators_reduce_over_their_members(ranks: RankPool, member: str, sums: list[int]) -> None:
    assert ranks.run(f"{JOBS}:sum_over", world=4, layout=(2, 2, 1), member=member, reverse=True) == sums


def test_two_models_share_no_communicator(ranks: RankPool) -> None:
    assert ranks.run(f"{JOBS}:two_collections_share_no_communicator", world=2) == [True, True]


def test_layout_of_another_world_is_refused(ranks: RankPool) -> None:
    (message, _) = ranks.run(f"{JOBS}:wrong_world", world=2, layout=(2, 2, 1))
    assert "actor: tensor 2 x pipeline 2" in message

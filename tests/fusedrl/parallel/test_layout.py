import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.parallel.layout import Layout, check_world

layouts = st.builds(Layout, tp=st.integers(1, 4), pp=st.integers(1, 4), dp=st.integers(1, 4), cp=st.integers(1, 3))
AXES = ("tp", "pp", "dp", "cp", "tp pp", "tp dp", "cp dp", "tp cp", "tp cp dp", "tp pp dp", "tp cp dp pp", "")


@given(layouts)
def test_rank_map_is_one_to_one(layout: Layout) -> None:
    coordinates = [layout.coords(rank) for rank in range(layout.world)]
    assert len(set(coordinates)) == layout.world
    ranks = [layout.rank(tp_i=t, dp_i=d, pp_i=p, cp_i=c) for t, d, p, c in coordinates]
    assert ranks == list(range(layout.world))


@given(layouts, st.sampled_from(AXES))
def test_groups_of_any_axes_partition_the_world(layout: Layout, axes: str) -> None:
    groups = list(layout.rank_lists(axes))
    assert sorted(rank for ranks in groups for rank in ranks) == list(range(layout.world))
    assert all(list(ranks) == sorted(ranks) for ranks in groups)


@pytest.mark.parametrize("axes", [a for a in AXES if a])
def test_groups_equal_megatrons_own(axes: str) -> None:
    from megatron.core.parallel_state import RankGenerator

    layout = Layout(tp=2, pp=3, dp=2, cp=2)
    theirs = RankGenerator(tp=2, ep=1, dp=2, pp=3, cp=2, order="tp-cp-ep-dp-pp").get_ranks(axes.replace(" ", "-"))
    assert sorted(layout.rank_lists(axes)) == sorted(tuple(sorted(ranks)) for ranks in theirs)


def test_tensor_parallel_ranks_sit_side_by_side_and_stages_far_apart() -> None:
    layout = Layout(tp=2, pp=2, dp=2)
    assert list(layout.rank_lists("pp")) == [(0, 4), (2, 6), (1, 5), (3, 7)]


def test_ranks_that_share_rows_sit_next_to_those_that_share_layers() -> None:
    assert list(Layout(tp=2, cp=2, dp=2).rank_lists("cp")) == [(0, 2), (4, 6), (1, 3), (5, 7)]


def test_data_parallel_size_fills_the_world() -> None:
    assert Layout.for_world(8, tp=2, pp=2) == Layout(tp=2, pp=2, dp=2)
    assert Layout.for_world(8, tp=2, cp=2) == Layout(tp=2, cp=2, dp=2)


def test_world_that_does_not_divide_is_refused_with_key_and_numbers() -> None:
    with pytest.raises(
        ValueError, match=r"actor: tensor_model_parallel_size 2 x .*size 2 = 4 does not divide the 6 ranks"
    ):
        Layout.for_world(6, tp=2, pp=2, key="actor")
    with pytest.raises(ValueError, match=r"size 1 x context_parallel_size 4 x .*size 1 = 4 does not divide the 6"):
        Layout.for_world(6, cp=4, key="actor")


def test_layout_of_another_world_is_refused_with_key_and_numbers() -> None:
    with pytest.raises(ValueError, match=r"critic: tensor 2 x pipeline 1 x data 2 = 4 ranks, but the job has 2"):
        check_world(Layout(tp=2, dp=2), 2, key="critic")


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_sizes_below_one_or_broken_are_refused(size: float) -> None:
    with pytest.raises(ValueError, match=f"layout size pp={size}"):
        Layout(pp=size)  # type: ignore[arg-type]


def test_coordinates_outside_the_layout_are_refused() -> None:
    with pytest.raises(AssertionError, match="outside"):
        Layout(tp=2).rank(tp_i=2)
    with pytest.raises(AssertionError, match="outside"):
        Layout(tp=2).coords(2)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.data.sampler import RowSampler


@given(size=st.integers(1, 30), batch=st.integers(1, 40), shuffle=st.booleans())
def test_every_epoch_gives_each_row_once(size: int, batch: int, shuffle: bool) -> None:
    sampler = RowSampler(size=size, seed=1, shuffle=shuffle)
    drawn = [index for _ in range(3 * size) for index in sampler.next(batch)]
    for epoch in range(3):
        assert sorted(drawn[epoch * size : (epoch + 1) * size]) == list(range(size))


@given(before=st.integers(0, 50), after=st.integers(1, 50))
def test_a_resumed_sampler_goes_on_as_the_uninterrupted_one(before: int, after: int) -> None:
    whole, first, second = (RowSampler(size=7, seed=4, shuffle=True) for _ in range(3))
    expected = whole.next(before + after)[before:]
    first.next(before)
    second.load_state_dict(first.state_dict())
    assert second.next(after) == expected
    assert second.epoch == (before + after) // 7


def test_epochs_and_seeds_differ() -> None:
    sampler = RowSampler(size=20, seed=0, shuffle=True)
    assert sampler.next(20) != sampler.next(20)
    assert RowSampler(size=20, seed=1, shuffle=True).next(20) != RowSampler(size=20, seed=0, shuffle=True).next(20)


def test_other_rows_cannot_be_resumed() -> None:
    with pytest.raises(ValueError, match="size 5 saved, 6 now"):
        RowSampler(size=6, seed=0, shuffle=True).load_state_dict(RowSampler(size=5, seed=0, shuffle=True).state_dict())
    with pytest.raises(ValueError, match="no rows"):
        RowSampler(size=0, seed=0, shuffle=True)

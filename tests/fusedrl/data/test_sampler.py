import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedrl.data.sampler import RowSampler


def sampler(size: int = 10, *, seed: int = 3, shuffle: bool = True) -> RowSampler:
    return RowSampler(size=size, seed=seed, shuffle=shuffle)


@settings(deadline=None)
@given(size=st.integers(1, 30), count=st.integers(1, 40), shuffle=st.booleans())
def test_every_epoch_gives_each_row_once_whatever_the_batch(size: int, count: int, shuffle: bool) -> None:
    rows = sampler(size, shuffle=shuffle)
    drawn = [index for _ in range(3 * size) for index in rows.next(count)]
    for epoch in range(3):
        assert sorted(drawn[epoch * size : (epoch + 1) * size]) == list(range(size))


def test_epochs_come_in_another_order() -> None:
    rows = sampler()
    epochs = [rows.next(10) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]


def test_without_shuffling_rows_come_in_their_order() -> None:
    assert sampler(3, shuffle=False).next(7) == [0, 1, 2, 0, 1, 2, 0]


@settings(deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_order_does_not_depend_on_how_it_is_asked_for(counts: list[int]) -> None:
    rows = sampler()
    assert [index for count in counts for index in rows.next(count)] == sampler().next(sum(counts))


@pytest.mark.parametrize("taken", [0, 1, 9, 10, 11, 25])
def test_resumed_equals_uninterrupted(taken: int) -> None:
    rows = sampler()
    rows.next(taken)
    resumed = sampler()
    resumed.load_state_dict(rows.state_dict())
    assert resumed.epoch == rows.epoch == taken // 10
    assert resumed.next(17) == rows.next(17)


def test_the_seed_alone_decides() -> None:
    assert sampler().next(20) == sampler().next(20)
    assert sampler().next(20) != sampler(seed=4).next(20)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (sampler(11), "size 10 saved, 11 now"),
        (sampler(seed=4), "seed 3 saved, 4 now"),
        (sampler(shuffle=False), "shuffle 1 saved, 0 now"),
    ],
)
def test_a_state_of_other_rows_is_refused(other: RowSampler, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        other.load_state_dict(sampler().state_dict())


def test_no_rows_is_an_error_that_names_the_keys() -> None:
    with pytest.raises(ValueError, match=r"data\.train_files or data\.task"):
        sampler(0)

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedrl.rl.partition import karmarkar_karp

SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=40)


def sums(sizes: list[int], parts: list[list[int]]) -> list[int]:
    return [sum(sizes[i] for i in part) for part in parts]


def test_textbook_cases_come_out_as_the_method_has_them() -> None:
    """Five numbers on which differencing ends 2 apart though 15|15 exists; three parts by hand."""
    assert karmarkar_karp([8, 7, 6, 5, 4], parts=2) == [[1, 3, 4], [0, 2]]
    assert karmarkar_karp([5, 5, 4, 3, 3], parts=3) == [[1, 4], [2, 3], [0]]


@settings(max_examples=100, deadline=None)
@given(SIZES, st.integers(1, 6))
def test_every_item_is_in_one_part_and_no_spread_exceeds_the_largest_item(sizes: list[int], parts: int) -> None:
    found = karmarkar_karp(sizes, parts=parts)
    totals = sums(sizes, found)
    assert len(found) == parts
    assert sorted(item for part in found for item in part) == list(range(len(sizes)))
    assert totals == sorted(totals, reverse=True)
    assert totals[0] - totals[-1] <= max(sizes)
    assert all(found) or len(sizes) < parts


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_equal_size_gives_equally_many_items(parts: int, each: int, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 1000), min_size=parts * each, max_size=parts * each))
    found = karmarkar_karp(sizes, parts=parts, equal_size=True)
    totals = sums(sizes, found)
    assert [len(part) for part in found] == [each] * parts
    assert sorted(item for part in found for item in part) == list(range(len(sizes)))
    assert totals[0] - totals[-1] <= max(sizes) - min(sizes)


def test_equal_size_costs_balance_where_one_item_outweighs_the_rest() -> None:
    sizes = [9, 1, 1, 1]
    assert sorted(sums(sizes, karmarkar_karp(sizes, parts=2))) == [3, 9]
    assert sorted(sums(sizes, karmarkar_karp(sizes, parts=2, equal_size=True))) == [2, 10]


def test_ties_are_broken_the_same_way_every_time() -> None:
    assert karmarkar_karp([2, 2, 2, 2], parts=2) == [[0, 3], [1, 2]]
    assert karmarkar_karp([1] * 6, parts=3, equal_size=True) == [[0, 5], [1, 4], [2, 3]]


def test_nothing_to_share_and_impossible_parts() -> None:
    assert karmarkar_karp([], parts=2) == [[], []]
    with pytest.raises(ValueError, match="parts=0: make it at least 1"):
        karmarkar_karp([1], parts=0)
    with pytest.raises(ValueError, match="5 items cannot be 2 parts of equally many; give a multiple of 2"):
        karmarkar_karp([1] * 5, parts=2, equal_size=True)

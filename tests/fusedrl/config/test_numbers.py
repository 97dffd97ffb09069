"""What would fit, in words."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.config.numbers import common_divisors, counted, divisors, listed, listed_words


@given(st.integers(1, 400), st.integers(1, 400))
def test_common_divisors_are_the_intersection(a: int, b: int) -> None:
    assert common_divisors(a, b) == sorted(set(divisors(a)) & set(divisors(b)))


@given(st.integers(1, 5000))
def test_divisors_are_all_that_divide(number: int) -> None:
    assert divisors(number) == [each for each in range(1, number + 1) if number % each == 0]


@pytest.mark.parametrize("number", [10**18 + 3, 2**61 - 1, 6 * (2**89 - 1), 10**300])
def test_huge_numbers_are_answered_at_once_with_some_true_divisors(number: int) -> None:
    began = time.process_time()
    found = divisors(number)
    assert time.process_time() - began < 2
    assert (found[0], found[-1]) == (1, number)
    assert all(number % each == 0 for each in found)


def test_words_are_listed_as_spoken() -> None:
    assert [listed_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a or b",
        "a, b or c",
    ]


def test_listed_keeps_the_nearest_in_order() -> None:
    assert listed([1], near=5) == "1"
    assert listed([1, 2, 4], near=3) == "1, 2 or 4"
    assert listed(divisors(256), near=100, most=3) == "32, 64 or 128"


def test_one_is_not_many() -> None:
    assert [counted(n, "rank") for n in (0, 1, 2)] == ["0 ranks", "1 rank", "2 ranks"]

"""What would fit, in words."""

from hypothesis import given
from hypothesis import strategies as st

from fusedrl.config.numbers import common_divisors, divisors, listed


@given(st.integers(1, 400), st.integers(1, 400))
def test_common_divisors_are_the_intersection(a: int, b: int) -> None:
    assert common_divisors(a, b) == sorted(set(divisors(a)) & set(divisors(b)))


def test_listed_keeps_the_nearest_in_order() -> None:
    assert listed([1], near=5) == "1"
    assert listed([1, 2, 4], near=3) == "1, 2 or 4"
    assert listed(divisors(256), near=100, most=3) == "32, 64 or 128"

"""Limits of a key: what breaks them, and their text."""

import pytest

from fusedrl.config.schema.fields import Limits


@pytest.mark.parametrize(
    ("limits", "good", "bad"),
    [
        (Limits(at_least=1), [1, 2.5], [0, 0.999, -1]),
        (Limits(above=0), [1e-30, 3], [0, 0.0, -1e-30]),
        (Limits(at_most=1), [1, 0, -5], [1.0001, 2]),
        (Limits(below=1), [0.999, 0], [1, 1.0]),
        (Limits(above=0, at_most=1), [0.5, 1], [0, 1.5]),
        (Limits(at_least=1, switch=-1), [-1, -1.0, 1, 7], [0, -2, 0.5, -1.5]),
        (Limits(at_least=0), [10**400], [-(10**400)]),
        (Limits(choices=("a", "b")), ["a", "b"], ["c", "", None]),
    ],
)
def test_a_limit_holds_exactly_at_its_edge(limits: Limits, good: list[object], bad: list[object]) -> None:
    assert [limits.broken_by(value) for value in good] == [None] * len(good)
    assert all(limits.broken_by(value) for value in bad)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_breaks_any_limits(value: float) -> None:
    assert Limits().broken_by(value) == "must be a finite number"


def test_truth_values_are_not_numbers() -> None:
    assert Limits(at_least=2).broken_by(True) is None


def test_text_shows_every_limit() -> None:
    assert Limits(above=0, at_most=1).text() == ">0, <=1"
    assert Limits(at_least=1, switch=-1).text() == ">=1 or -1"
    assert Limits(at_least=-1, below=2.5).text() == ">=-1, <2.5"
    assert Limits(choices=("a", "b")).text() == "a | b"

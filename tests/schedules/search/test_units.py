"""Whole-number units: exact where they say so, whatever time and memory are counted in, and never 0 for something."""

import math

import pytest

from schedules.search.units import unit_of


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([1, 2], [1, 2]),
        ([0.5], [1]),
        ([0, 0.5, 2], [0, 1, 4]),
        ([1.95, 2], [39, 40]),
        ([0.1, 7], [1, 70]),
        ([1 / 3, 1 / 7, 1], [7, 3, 21]),
        ([2.71828, 3.14159], [271828, 314159]),
        ([1e17], [1]),
        ([0], [0]),
    ],
)
def test_coarsest_unit_that_is_exact(values, counts):
    unit = unit_of(values)
    assert unit.exact
    assert [unit.up(v) for v in values] == counts == [unit.down(v) for v in values]


def test_a_sum_in_floating_point_is_not_rounded_away():
    unit = unit_of([1.95, 0.1])
    assert unit.up(sum([1.95] * 8)) == unit.down(sum([1.95] * 8)) == 8 * unit.up(1.95)
    assert unit.up(sum([0.1] * 3)) == unit.down(0.3) == 3 * unit.up(0.1)


def test_without_a_unit_durations_round_up_and_limits_down():
    values = [1.0, math.sqrt(2), math.pi, math.e]
    unit = unit_of(values)
    assert not unit.exact
    for value in (values[1], values[3]):
        assert unit.down(value) * unit.size < value < unit.up(value) * unit.size < value * (1 + 1e-8)


@pytest.mark.parametrize("values", [[1e100, 1.0], [1e15, 0.3], [1e15, 1e-300], [math.pi * 1e90, 1e90, math.e * 1e80]])
def test_large_values_become_units_that_fit_a_solver_rounded_up(values):
    unit = unit_of(values)
    assert not unit.exact
    assert all(value <= unit.up(value) * unit.size * (1 + 1e-9) for value in values)
    assert max(unit.up(value) for value in values) <= 2**33


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e-7, 1e-5, 1.0, 1e90])
def test_does_not_depend_on_how_time_is_counted(scale):
    unit = unit_of([5 * scale, 2 * scale, 10 * scale])
    assert unit.exact
    assert [unit.up(v * scale) for v in (5, 2, 10)] == [5, 2, 10]


@pytest.mark.parametrize("value", [1e-320, 1e-300, 1e-9, 1e-7])
def test_rounding_up_never_makes_nothing_of_something(value):
    assert unit_of([value, 1.0, 1e15]).up(value) >= 1
    assert unit_of([1e99]).up(value) >= 1
    assert unit_of([1e15]).up(0) == 0


def test_what_is_too_small_to_count_takes_little_of_the_room_of_the_others():
    unit = unit_of([1.0, 1e-13, 3.0])
    assert not unit.exact
    assert unit.down(3.0) == 3 * unit.up(1.0)
    assert unit.up(1e-13) < unit.up(1.0) / 1e6


def test_what_is_nearly_whole_is_not_whole():
    unit = unit_of([1.0, 2.0000005])
    assert not unit.exact
    assert unit.up(2.0000005) > 2 * unit.up(1.0)

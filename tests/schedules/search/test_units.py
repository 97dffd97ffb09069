"""Whole-number units."""

import pytest

from schedules.search.units import unit_of


@pytest.mark.parametrize(("values", "scale"), [([1, 2], 1), ([0.5], 2), ([1.95, 2], 20), ([1.64], 25), ([0.1, 7], 10)])
def test_coarsest_unit_that_is_exact(values, scale):
    unit = unit_of(values)
    assert (unit.scale, unit.exact) == (scale, True)
    assert [unit.up(v) / scale for v in values] == values == [unit.down(v) / scale for v in values]


def test_a_sum_in_floating_point_is_not_rounded_away():
    unit = unit_of([1.95])
    assert unit.up(sum([1.95] * 8)) == unit.down(sum([1.95] * 8)) == 8 * unit.up(1.95)


def test_without_a_unit_durations_round_up_and_limits_down():
    unit = unit_of([1 / 3])
    assert not unit.exact
    assert unit.down(1 / 3) / unit.scale < 1 / 3 < unit.up(1 / 3) / unit.scale


@pytest.mark.parametrize("values", [[1e100, 1.0], [1e17], [1e15, 0.3]])
def test_large_values_become_units_that_fit_a_solver_rounded_up(values):
    unit = unit_of(values)
    assert not unit.exact
    assert all(value * unit.scale - 1e-6 <= unit.up(value) <= 2**51 for value in values)

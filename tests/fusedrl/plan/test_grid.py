"""What is said of sizes between and beyond measured ones."""

import math

import pytest

from fusedrl.plan.grid import Grid

PLANE = Grid.of({(x, y): (x * y, 2 * x * y) for x in (1.0, 4.0, 16.0) for y in (2.0, 8.0)})


def test_on_a_point_it_is_what_was_measured() -> None:
    odd = Grid.of({(3.0,): (0.1,), (7.0,): (0.7,), (9.0,): (0.3,)})
    assert [odd(size) for size in (3.0, 7.0, 9.0)] == [(0.1,), (0.7,), (0.3,)]
    assert PLANE(4.0, 8.0) == (32.0, 64.0)


def test_between_points_powers_are_exact() -> None:
    assert PLANE(2.0, 4.0) == pytest.approx((8.0, 16.0), rel=1e-12)
    assert PLANE(4.0, 4.0) == pytest.approx((16.0, 32.0), rel=1e-12)
    root = Grid.of({(1.0,): (1.0,), (100.0,): (10.0,)})
    assert root(25.0) == pytest.approx((math.sqrt(25.0),), rel=1e-12)


def test_beyond_the_points_lines_go_on() -> None:
    line = Grid.of({(size,): (3.0 + size,) for size in (1.0, 2.0, 4.0)})
    assert line(10.0) == (13.0,)
    assert line(0.5) == (3.5,)
    assert PLANE(32.0, 2.0) == (64.0, 128.0)


def test_below_the_points_it_is_not_less_than_in_proportion() -> None:
    steep = Grid.of({(2.0,): (1.0,), (4.0,): (9.0,)})
    assert steep(1.0) == (0.5,)


def test_more_work_never_takes_less() -> None:
    falling = Grid.of({(1.0,): (5.0,), (2.0,): (4.0,)})
    assert falling(8.0) == (4.0,)


def test_one_point_is_scaled() -> None:
    assert Grid.of({(4.0,): (2.0,)})(6.0) == (3.0,)


def test_what_lies_within_is_known() -> None:
    assert PLANE.holds((1.0, 8.0))
    assert not PLANE.holds((0.9, 8.0))
    assert not PLANE.holds((1.0, 8.1))


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ({}, "there is no point"),
        ({(1.0, 2.0): (1.0,), (2.0, 3.0): (1.0,)}, r"the point \[1.0, 3.0\] is missing"),
        ({(0.0,): (1.0,)}, "above 0"),
        ({(1.0,): (math.inf,)}, "finite"),
    ],
)
def test_points_that_make_no_grid_are_refused(points: dict[tuple[float, ...], tuple[float, ...]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Grid.of(points)

"""Charts keep their numbers when they are thinned, cut by gaps or out of the ordinary range."""

import pytest

from fusedrl.report.chart import POINTS, Series, curves, histogram, thinned
from tests.fusedrl.report.folders import Seen


def test_many_steps_become_means_that_say_of_which() -> None:
    points = [(float(k), float(k)) for k in range(1, 3 * POINTS)]
    found = thinned(points)
    assert len(found) == POINTS
    assert found[0] == ("mean of steps 1 to 3", 2.0, 2.0)
    assert found[-1] == (f"mean of steps {3 * POINTS - 2} to {3 * POINTS - 1}", 3 * POINTS - 1.5, 3 * POINTS - 1.5)


def test_a_gap_breaks_the_line() -> None:
    points = [(1.0, 0.5), (2.0, 0.25), (3.0, None), (4.0, 1.0)]
    found = Seen(curves([Series("a", points)], label="x", unit=""))
    assert [value.count(",") for name, value in found.attributes if name == "points" and value] == [2, 1]


@pytest.mark.parametrize("values", [(5e-324, 0.0), (1.0, 1.0 + 2e-16), (1e149, -1e149), (0.0, 0.0), (-3.0, -3.0)])
def test_any_finite_range_is_drawn_within_the_frame(values: tuple[float, float]) -> None:
    found = Seen(curves([Series("a", [(1.0, values[0]), (2.0, values[1])])], label="x", unit=""))
    places = [float(value) for name, value in found.attributes if name == "cy" and value]
    assert len(places) == 2
    assert all(0 <= place <= 230 for place in places)


def test_wide_lengths_fall_into_ranges() -> None:
    found = Seen(histogram([1, 2, 3, 100], label="x", unit="tokens"))
    assert found.marks["x"] == ["1 to 3: 3", "100 to 102: 1"]

"""The decode curve meets its points, and the cheaper way of moving is the one that is chosen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.stream.costs import DecodeCurve, Link, StreamCosts


@given(base=st.floats(1, 20), row=st.floats(0, 0.1), knee=st.integers(2, 300), beyond=st.floats(0, 0.2))
def test_curve_is_base_rows_and_what_lies_beyond_the_knee(base: float, row: float, knee: int, beyond: float) -> None:
    curve = DecodeCurve.with_knee(base_ms=base, row_ms=row, knee=knee, beyond_ms=beyond)
    for rows in (1, 2, knee - 1, knee, knee + 1, knee + 2, 3 * knee):
        assert curve.step_ms(rows) == pytest.approx(base + row * rows + beyond * max(0, rows - knee))
    assert np.allclose(curve.table(5, extra_ms=2.0)[1:], [curve.step_ms(n) + 2 for n in range(1, 6)])


@given(row=st.floats(0.001, 0.5), slack=st.floats(0.01, 1.0))
def test_unslowed_rows_are_the_most_within_the_slack(row: float, slack: float) -> None:
    curve = DecodeCurve.with_knee(base_ms=8, row_ms=row, knee=40, beyond_ms=0.3)
    rows, limit = curve.unslowed_rows(slack=slack), curve.step_ms(1) * (1 + slack)
    assert curve.step_ms(rows) <= limit < curve.step_ms(rows + 1)


@pytest.mark.parametrize("points", [((1, 1.0),), ((2, 1.0), (2, 2.0)), ((4, 1.0), (2, 2.0)), ((0, 1.0), (2, 2.0))])
def test_points_that_make_no_curve_are_refused(points: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError, match="two points or more"):
        DecodeCurve(points)


def test_keys_and_values_move_where_that_is_cheaper_than_a_prefill() -> None:
    curve = DecodeCurve(((1, 8.0), (2, 8.0)))
    link = Link(bytes_per_token=100, bytes_per_ms=1000, latency_ms=5)  # 5 + 0.1 a token against 0.2 a token
    costs = StreamCosts(decode=curve, prefill_ms=0.2, link=link, max_rows=7)
    assert [costs.transfers(tokens) for tokens in (10, 49, 51, 1000)] == [False, False, True, True]
    assert [costs.move_ms(tokens) for tokens in (10, 100)] == [pytest.approx(2), pytest.approx(15)]
    assert costs.destination_rows == 7  # the curve is flat, memory is not
    alone = StreamCosts(decode=curve, prefill_ms=0.2)
    assert not alone.transfers(1000)
    assert alone.move_ms(1000) == pytest.approx(200)

"""Records: one line there and back; any other line is refused."""

import pytest
from hypothesis import strategies as st

from schedules.order import OrderError
from schedules.record import Record, from_line, to_line
from tests.schedules.strategies import for_all

RECORD = Record(613, 606, False, 38.72, 40, "auto", 7, 41.5)
NUMBERS = st.floats(0, 1e100).map(lambda x: float(f"{x:.12g}"))
RECORDS = st.builds(
    Record,
    NUMBERS,
    NUMBERS,
    st.booleans(),
    NUMBERS,
    st.none() | NUMBERS,
    st.just("zero-bubble"),
    st.integers(0),
    NUMBERS,
)


@for_all(RECORDS.filter(lambda record: record.seed < 10**18))
def test_round_trip(record):
    assert from_line(to_line(record)) == record


def test_line_reads_as_documented():
    assert to_line(RECORD) == (
        "# makespan 613, lower bound 606, proved no, peak memory 38.72, memory cap 40, "
        "method auto, seed 7, seconds 41.5"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("makespan 613", "makespan -613"),
        ("makespan 613", "makespan nan"),
        ("proved no", "proved maybe"),
        ("memory cap 40", "memory cap inf"),
        ("seed 7", "seed 7.5"),
        ("seed 7", "seed " + "9" * 5000),
        ("method auto", "method auto, by hand"),
        (", seconds 41.5", ""),
        ("41.5", "41.5 or so"),
    ],
)
def test_other_lines_are_refused_in_one_line(old, new):
    line = to_line(RECORD)
    with pytest.raises(
        OrderError, match=r"line 2: not a record of an order; expected it as '# makespan 613,"
    ) as caught:
        from_line(line.replace(old, new))
    assert "\n" not in str(caught.value)

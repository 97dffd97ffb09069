"""Quantities keep their meaning in every form, and equal quantities get equal forms."""

import pytest

from schedules.forms import compact, entry, plain


@pytest.mark.parametrize("value", [5, [5, 5], [[5, 5, 5], [5, 5, 5]], [5, [5, 5, 5]]])
def test_equal_quantities_compact_to_one_number(value):
    assert compact(value, stages=2, microbatches=3, place="x") == 5.0


def test_entries_survive_compaction():
    rows = [[1, 2, 3], 4, [5, 5, 5]]
    form = compact(rows, stages=3, microbatches=3, place="x")
    full = [[1, 2, 3], [4, 4, 4], [5, 5, 5]]
    assert [[entry(form, s, m) for m in range(3)] for s in range(3)] == full
    assert plain(form) == full


def test_per_stage_form_is_kept_where_microbatches_agree():
    assert compact([[1, 1], [2, 2]], stages=2, microbatches=2, place="x") == (1.0, 2.0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "x: expected a finite number of at least 0, got -1"),
        (float("nan"), "x: expected a finite number of at least 0, got nan"),
        (True, "x: expected a number, got True"),
        ("5", "x: expected a number, got the text '5'; write numbers without quotes"),
        ([1, 2, 3], "x: 3 entries for 2 stages; give one number or one entry per stage"),
        ([1, [1, 2, 3]], r"x\[1\]: 3 entries for 2 micro-batches"),
        ([1, [1, -2]], r"x\[1\]\[1\]: expected a finite number of at least 0, got -2"),
    ],
)
def test_bad_entry_is_named(value, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        compact(value, stages=2, microbatches=2, place="x")

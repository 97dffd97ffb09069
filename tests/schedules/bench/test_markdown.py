"""Markdown: every kind of cell, in a table that has its rule."""

from schedules.bench.markdown import percent, table


def test_cells_of_all_kinds():
    assert table(["a", "b"], [[1.0, "x"], [True, None], [False, 15.600001], [123456789, 0.5]]) == (
        "| a | b |\n| --- | --- |\n| 1 | x |\n| yes | - |\n| no | 15.6 |\n| 123456789 | 0.5 |\n"
    )


def test_percent_has_one_digit():
    assert percent(0.0349) == "3.5 %"

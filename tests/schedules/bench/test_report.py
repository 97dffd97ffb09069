"""Reports: rows in the table's sequence, the last run of each, and how each was run."""

import pytest

from schedules.bench.lines import append
from schedules.bench.report import report
from schedules.bench.table import RowError, Settings

FACTS = {"lower_bound": 300.0, "proved_optimal": False, "peak": 15.0}


def add(path, row, makespan, seed):
    settings = Settings("auto", 30.0, None, 1, seed)
    append(path, table="front", row=row, settings=settings, facts=FACTS | {"makespan": makespan})


def test_last_run_of_a_row_counts_in_the_tables_sequence(tmp_path):
    path = tmp_path / "a.jsonl"
    for row, makespan, seed in (
        ("exp10 cap 1.00", 330, 0),
        ("exp9 cap 1.00", 620, 0),
        ("exp8 cap 1.00", 190, 0),
        ("exp10 cap 1.00", 320, 7),
    ):
        add(path, row, makespan, seed)
    text = report([path])
    assert text.index("exp9") < text.index("exp10")
    assert ("| exp10 | 300 | 320 (15) |" in text, "330" in text) == (True, False)
    notes = [line for line in text.splitlines() if line.startswith("Run with")]
    assert len(notes) == 2
    assert notes[0].startswith("Run with method auto, time_limit 30, workers 1, seed 0, python 3.")
    assert ", seed 7, " in notes[1]


@pytest.mark.parametrize("facts", [{}, {"makespan": "x"}])
def test_facts_of_no_row_are_refused_by_their_tables_name(tmp_path, facts):
    settings = Settings("auto", 30.0, None, 1, 0)
    append(tmp_path / "a.jsonl", table="front", row="exp8 cap 1.00", settings=settings, facts=facts)
    with pytest.raises(RowError, match="front: facts"):
        report([tmp_path / "a.jsonl"])

"""Table front: each problem within each cap, a line a problem."""

from schedules.bench.front import TABLE, report, run
from schedules.bench.table import Settings


def test_row_keeps_its_cap():
    outcome = run("exp5 cap 1.10", Settings("greedy", 1, None, 1, 0))
    assert outcome.facts["memory_cap"] == outcome.solution.problem.memory_cap == 17.16
    assert outcome.facts["peak"] <= 17.16


def test_report_marks_what_is_proved_and_what_is_missing():
    facts = {"makespan": 318.0, "lower_bound": 318.0, "proved_optimal": True, "peak": 26.24}
    rows = {"exp10 cap 1.00": facts | {"proved_optimal": False, "makespan": 320.0}, "exp10 cap 1.25": facts}
    assert report(rows).splitlines()[2] == "| exp10 | 318 | 320 (26.24) | - | =318 (26.24) |"


def test_three_caps_of_twelve_problems_are_rows():
    assert len(set(TABLE.keys)) == 36

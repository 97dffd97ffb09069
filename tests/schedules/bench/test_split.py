"""Table split: split backwards within serial 1F1B's peak, and the gap to the bound."""

from schedules.bench.split import AIM, TABLE, report, run
from schedules.bench.table import Settings


def test_row_splits_within_the_cap_and_is_kept_by_a_name_of_its_own():
    outcome = run("exp1", Settings("greedy", 1, None, 1, 0))
    assert outcome.facts["peak"] <= outcome.facts["memory_cap"] == 15.6
    assert [model.backward_weight for model in outcome.solution.problem.models] == [5, 4, 4]
    assert outcome.name == "exp1-split"


def test_report_tells_the_gap_and_the_aim():
    facts = {"makespan": 357.0, "lower_bound": 350.0, "bubble_ratio": 0.01, "peak": 15.0, "memory_cap": 15.6}
    lines = report({key: facts | {"seconds": 30.04} for key in ("exp1", "exp2")}).splitlines()
    assert lines[2] == "| exp1 | 357 | 350 | 2.0 % | 348 | 1.0 % | 15 | 15.6 | 30 |"
    assert lines[3] == "| exp2 | 357 | 350 | 2.0 % | - | 1.0 % | 15 | 15.6 | 30 |"
    assert set(AIM) < set(TABLE.keys)

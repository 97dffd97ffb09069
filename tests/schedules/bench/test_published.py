"""Table published: each row is the problem's own solution beside the authors'."""

from schedules.bench.published import TABLE, report, run
from schedules.bench.table import Settings, facts_of
from schedules.solve import solve
from tests.schedules.published import published


def test_row_is_the_solution_of_the_problem_without_a_cap():
    outcome = run("exp7", Settings("serial", 1, None, 1, 0))
    alone = solve(published(7), method="serial")
    same = {key: value for key, value in facts_of(alone).items() if key != "seconds"}
    assert same.items() <= outcome.facts.items()
    assert (outcome.facts["serial_peak"], outcome.name, outcome.solution.order) == (26.24, "exp7", alone.order)


def test_report_sets_ours_beside_theirs():
    facts = {"makespan": 606.0, "lower_bound": 606.0, "proved_optimal": True, "bubble_ratio": 0.0495, "peak": 36.5}
    line = report({"exp9": facts | {"serial_peak": 26.24, "seconds": 41.26}}).splitlines()[2]
    assert line == "| exp9 | 606 | 613 | 606 | yes | 5.0 % | 36.5 | 38.72 | 26.24 | 41.3 | 3976 |"


def test_all_published_problems_are_rows():
    assert TABLE.keys == tuple(f"exp{i}" for i in range(12))

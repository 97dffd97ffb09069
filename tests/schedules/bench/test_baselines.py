"""Baselines: laid out as named, under the cap and the communication of one stage a rank."""

import pytest

from schedules.bench.baselines import APPROACHES, PROBLEMS, TABLE, problem_of, report, run
from schedules.bench.problems import published
from schedules.bench.table import Settings
from schedules.replay import work_of

SETTINGS = Settings("anneal", 5, 500, 1, 0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_approaches_have_the_same_work_cap_and_communication(name):
    problems = [problem_of(name, approach=approach) for approach in APPROACHES.values()]
    work = work_of(problems[0])
    assert all(work_of(problem) == pytest.approx(work) for problem in problems)
    assert len({(problem.memory_cap, problem.comm) for problem in problems}) == 1
    assert problems[0].comm == pytest.approx(0.1 * problems[0].models[-1].duration("F", 0, 0))


def test_interleaved_copies_of_a_critic_keep_to_their_ranks():
    problem = problem_of("exp1", approach=APPROACHES["interleaved-4"])
    assert problem.model("critic0").placement == (3, 2, 1, 0) * 4
    assert problem.model("critic1").placement == (7, 6, 5, 4) * 4
    assert problem.model("critic1").duration("F", 5, 0) == published("exp1").model("critic1").duration("F", 0, 0) / 4


def test_baseline_enters_with_the_better_of_the_orders_that_keep_the_cap():
    facts = run("p4m4 1f1b", SETTINGS).facts
    assert facts["makespan"] == min(facts["closed"]["makespan"], facts["searched"]["makespan"])
    facts = run("p8m16 interleaved-2", SETTINGS).facts
    assert facts["closed"]["peak"] > facts["memory_cap"] == 15.6
    assert (facts["how"], facts["makespan"]) == ("searched", facts["searched"]["makespan"])
    assert facts["searched"]["peak"] <= facts["memory_cap"]


def test_fused_orders_are_kept_and_baselines_are_not():
    assert run("p4m4 fused-split-v", SETTINGS).name == "p4m4-comm-split-v"
    assert run("p4m4 zb-v", SETTINGS).solution is None


def test_report_marks_the_best_and_says_what_does_not_fit():
    fits = {
        "lower_bound": 8.0,
        "bubble_ratio": 0.2,
        "peak": 4.0,
        "how": "searched",
        "memory_cap": 4.0,
        "makespan": 10.0,
    }
    tried = {"closed": {"makespan": 9.0, "peak": 5.0}, "searched": {"makespan": 10.0, "peak": 4.0}}
    none = dict.fromkeys(("makespan", "bubble_ratio", "peak", "how")) | {"lower_bound": 8.0, "memory_cap": 4.0}
    rows = {
        "p4m4 fused": fits | {"bubble_ratio": 0.1},
        "p4m4 1f1b": fits | tried,
        "p4m4 zb-v": none | tried | {"searched": {"makespan": 9.5, "peak": 4.5}},
    }
    lines = report(rows).splitlines()
    assert lines[2] == "| p4m4 | **10.0 %** | - | - | 20.0 % | - | - | - | does not fit (peak 5) |"
    assert "| p4m4 | 1f1b | 10 | 8 | 20.0 % | 4 | 4 | searched | 9, does not fit (peak 5) | 10 |" in lines
    assert lines[-1].endswith("| - | 9, does not fit (peak 5) | 9.5, does not fit (peak 4.5) |")


def test_table_has_a_row_for_each_problem_and_approach():
    assert len(TABLE.keys) == len(set(TABLE.keys)) == 10 * 8

"""The CP-SAT model: what it allows is what the check allows."""

from schedules.builders import greedy
from schedules.check import check
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.cp_model import CpModel
from schedules.search.limits import Limits
from tests.schedules.strategies import for_all, problems


@for_all(problems(), examples=25)
def test_every_valid_order_is_a_solution_and_every_solution_a_valid_order(problem):
    model = CpModel(problem, horizon=replay(problem, greedy(problem)).makespan)
    model.hint(greedy(problem))
    model.minimise(model.makespan, unit=model.time, limits=Limits(seconds=20, steps=10_000))
    order = model.order()
    if order is not None:
        check(problem, order)


def test_ops_without_duration_come_in_a_sequence_that_can_run():
    problem = Problem(2, (Model("v", [0, 1, 1, 0], 2, 0, 0),))
    model = CpModel(problem, horizon=0)
    model.minimise(model.makespan, unit=model.time, limits=Limits(seconds=20))
    assert check(problem, model.order()).makespan == 0


def test_horizon_below_the_optimum_has_no_solution():
    problem = Problem(2, (Model("a", [0, 1], 2, 1, 2, activation=1),))
    model = CpModel(problem, horizon=8)
    model.minimise(model.makespan, unit=model.time, limits=Limits(seconds=20))
    assert model.order() is None


def test_credit_window_forbids_what_the_cap_forbids():
    problem = Problem(1, (Model("a", [0], 3, 1, 1, activation=1),), memory_cap=1)
    model = CpModel(problem, horizon=6)
    model.minimise(model.makespan, unit=model.time, limits=Limits(seconds=20))
    assert model.order().to_text(problem) == "a:F0 a:B0 a:F1 a:B1 a:F2 a:B2\n"

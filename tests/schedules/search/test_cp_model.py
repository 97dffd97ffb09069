"""The CP-SAT model: what it allows is what the check allows."""

from dataclasses import replace

from schedules.bounds import lower_bound
from schedules.builders import greedy, serial_1f1b
from schedules.check import check
from schedules.order import Op, Order
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search.cp_model import CpModel
from schedules.search.credits import splits
from schedules.search.limits import Limits
from tests.schedules.strategies import for_all, problems


@for_all(problems(), examples=25)
def test_every_valid_order_is_a_solution_and_every_solution_a_valid_order(problem):
    model = CpModel(problem, horizon=replay(problem, greedy(problem)).makespan)
    model.hint(greedy(problem))
    model.minimise(model.makespan_above(0), unit=model.time, limits=Limits(seconds=20, steps=10_000))
    order = model.order()
    if order is not None:
        check(problem, order)


def test_ops_without_duration_come_in_a_sequence_that_can_run():
    problem = Problem(2, (Model("v", [0, 1, 1, 0], 2, 0, 0),))
    model = CpModel(problem, horizon=0)
    model.minimise(model.makespan_above(0), unit=model.time, limits=Limits(seconds=20))
    assert check(problem, model.order()).makespan == 0


def test_of_ops_without_duration_those_that_give_memory_back_come_first():
    problem = Problem(1, (Model("a", [0], 2, 0, 2, 0, activation=1),), memory_cap=1)
    for windows in (None, {("a", 0): 1}):
        model = CpModel(problem, horizon=4, windows=windows)
        model.satisfy(Limits(seconds=20))
        check(problem, model.order())
    apart = tuple(Model(name, [0], 1, 0, 2, 0, activation=1) for name in "ab")
    model = CpModel(Problem(1, apart, memory_cap=1), horizon=4)
    model.satisfy(Limits(seconds=20))
    check(model.problem, model.order())


def test_horizon_below_the_optimum_has_no_solution():
    problem = Problem(2, (Model("a", [0, 1], 2, 1, 2, activation=1),))
    model = CpModel(problem, horizon=8)
    model.minimise(model.makespan_above(0), unit=model.time, limits=Limits(seconds=20))
    assert model.order() is None


def test_credit_window_forbids_what_the_cap_forbids():
    problem = Problem(1, (Model("a", [0], 3, 1, 1, activation=1),), memory_cap=1)
    model = CpModel(problem, horizon=6)
    model.minimise(model.makespan_above(0), unit=model.time, limits=Limits(seconds=20))
    assert model.order().to_text(problem) == "a:F0 a:B0 a:F1 a:B1 a:F2 a:B2\n"


@for_all(problems(), examples=25)
def test_orders_within_windows_are_within_the_cap(problem):
    for windows in splits(problem):
        model = CpModel(problem, horizon=3 * replay(problem, greedy(problem)).makespan, windows=windows)
        model.satisfy(Limits(seconds=20, steps=20_000))
        check(problem, model.order())


def test_windows_hold_back_the_forward_of_the_micro_batch_after():
    problem = Problem(1, (Model("a", [0], 4, 1, 1, activation=1),))
    model = CpModel(problem, horizon=8, windows={("a", 0): 2})
    start = Order((tuple(Op("a", kind, m, 0) for kind in "FB" for m in range(4)),))
    model.hint(start)
    model.satisfy(Limits(seconds=20))
    assert replay(problem, model.order()).max_peak_memory <= 2


@for_all(problems(capped=False), examples=25)
def test_domains_hold_every_order_that_ends_by_the_horizon(problem):
    for order in (greedy(problem), serial_1f1b(problem)):
        result = replay(problem, order)
        model = CpModel(problem, horizon=result.makespan)
        for op, i in model.graph.number.items():
            first, last = list(model.start[i].proto.domain)
            if op in result.start and op.kind == "F":
                assert first <= model.time.up(result.start[op]) <= last


def test_domains_are_heads_and_tails():
    problem = Problem(2, (Model("a", [0, 1], 2, 1, 2, activation=1),), memory_cap=1)
    model = CpModel(problem, horizon=15)
    second = model.start[model.graph.number[Op("a", "F", 1, 0)]]
    assert list(second.proto.domain) == [6, 9]  # after the first micro-batch's 6, before the 6 of its own


def test_impossible_only_where_it_is_proved():
    problem = Problem(2, (Model("a", [0, 1], 2, 1, 2), Model("b", [1, 0], 2, 1, 2)))
    bound = lower_bound(problem)
    below, at = CpModel(problem, horizon=bound - 1), CpModel(problem, horizon=2 * bound)
    for model in (below, at):
        model.satisfy(Limits(seconds=20))
    assert (below.impossible, at.impossible) == (True, False)
    rounded = replace(problem, comm=1e-12)
    model = CpModel(rounded, horizon=bound - 1)
    model.satisfy(Limits(seconds=20))
    assert not model.impossible


def test_the_same_seed_and_steps_give_the_same_order():
    problem = Problem(3, tuple(Model(n, p, 4, 2, 3, activation=1) for n, p in (("a", [0, 1, 2]), ("b", [2, 1, 0]))))
    orders = []
    for _ in range(2):
        model = CpModel(problem, horizon=lower_bound(problem) * 1.1)
        model.satisfy(Limits(steps=100_000, seed=3))
        orders.append(model.order())
    assert orders[0] is not None
    assert orders[0] == orders[1]

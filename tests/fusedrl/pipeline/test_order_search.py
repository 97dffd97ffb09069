import threading
import time
from collections.abc import Iterator

import pytest

from fusedrl.pipeline import order_search
from fusedrl.pipeline.order_search import _SMALL, OrderSearch, start_of
from schedules.builders import greedy
from schedules.check import check
from schedules.problem import Model, Problem, ProblemError
from schedules.search.limits import Limits
from schedules.solve import Solution, solve


def problem(*, forward: float = 3.0, cap: float | None = None) -> Problem:
    """Greedy's order of it can be bettered."""
    actor = Model("actor", [0, 1, 2, 3], 8, forward=forward, backward=2 * forward, activation=1.0)
    critic = Model("critic", [3, 2, 1, 0], 8, forward=1.0, backward=2.0, activation=0.5)
    return Problem(4, (actor, critic), memory_cap=cap)


@pytest.fixture
def search() -> Iterator[OrderSearch]:
    made = OrderSearch(method="tabu", seconds=0.3)
    yield made
    made.close()


class Gate:
    """A search that takes until it is let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun: list[Problem] = []
        self.limits: list[Limits] = []

    def __call__(self, asked: Problem, *, limits: Limits, **_: object) -> Solution:
        self.begun.append(asked)
        self.limits.append(limits)
        self.open.wait(20)
        return solve(asked, method="greedy")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    made.open.set()
    monkeypatch.setattr(order_search, "solve", made)
    yield made
    made.open.set()


def closed(gate: Gate, search: OrderSearch) -> None:
    """The search that loads the compiled code is over, the next ones wait at the gate."""
    until_begun(gate)
    gate.begun.clear()
    gate.open.clear()


def until_begun(gate: Gate) -> None:
    ends = time.perf_counter() + 10
    while not gate.begun and time.perf_counter() < ends:
        time.sleep(0.001)


@pytest.mark.parametrize(("forward", "cap"), [(3.0, None), (2.0, 4.0)])
def test_orders_found_are_shorter_than_greedys_and_keep_the_cap(
    search: OrderSearch, forward: float, cap: float | None
) -> None:
    asked = problem(forward=forward, cap=cap)
    search.begin([asked])
    taken = search.take(asked, unit_s=None)
    assert taken.final
    assert taken.seconds > 0
    assert check(asked, taken.order).makespan < taken.start.replay.makespan
    assert taken.start.order == greedy(asked)
    assert taken.start.bound <= check(asked, taken.order).makespan


def test_code_is_loaded_by_a_problem_that_needs_a_search() -> None:
    assert not start_of(_SMALL).is_best


def test_equal_work_is_searched_once(search: OrderSearch) -> None:
    search.begin([problem(), problem()])
    first = search.take(problem(), unit_s=None)
    search.begin([problem()])
    again = search.take(problem(), unit_s=None)
    assert again.order is first.order
    assert again.waited < 0.05


def test_new_problems_of_a_step_share_its_budget(gate: Gate) -> None:
    search = OrderSearch(method="tabu", seconds=0.4)
    asked = [problem(), problem(cap=4.0), problem(forward=2.0, cap=4.0)]
    for step in (asked[:1], asked):
        search.begin(step)
        for each in step:
            search.take(each, unit_s=None)
    assert [each.seconds for each in gate.limits[1:]] == [0.4, 0.2, 0.2]
    search.close()


def test_work_that_was_not_announced_gets_greedys_order(search: OrderSearch) -> None:
    taken = search.take(problem(), unit_s=None)
    assert taken.order == greedy(problem())
    assert taken.final


@pytest.mark.parametrize("place", [0, 1])
def test_no_search_and_no_waiting_where_greedy_meets_the_bound(gate: Gate, place: int) -> None:
    search = OrderSearch(method="tabu", seconds=0.3)
    closed(gate, search)
    lone = Problem(1, (Model("actor", [0], 3, forward=1.0, backward=2.0),))
    asked = [problem()]
    asked.insert(place, lone)
    search.begin(asked)
    until_begun(gate)
    began = time.perf_counter()
    assert search.take(lone, unit_s=None).order == greedy(lone)
    assert time.perf_counter() - began < 1.0
    gate.open.set()
    search.close()
    assert gate.begun == [problem()]


@pytest.mark.parametrize("unit_s", [0.0, 0.01])
def test_a_pass_waits_no_longer_than_a_better_order_can_save(gate: Gate, unit_s: float) -> None:
    search = OrderSearch(method="tabu", seconds=0.3)
    closed(gate, search)
    asked = problem()  # 109 by greedy, 102 at best
    search.begin([asked])
    began = time.perf_counter()
    taken = search.take(asked, unit_s=unit_s)
    assert 7 * unit_s <= time.perf_counter() - began < 1.0
    assert (taken.order, taken.final) == (greedy(asked), False)
    gate.open.set()
    assert search.take(asked, unit_s=None).final  # the search went on, and equal work finds it done
    search.close()


def test_what_was_not_begun_is_given_up_for_a_new_step(gate: Gate) -> None:
    search = OrderSearch(method="tabu", seconds=0.3)
    closed(gate, search)
    running, waiting, new = problem(), problem(cap=4.0), problem(forward=2.0, cap=4.0)
    search.begin([running, waiting])
    until_begun(gate)
    search.begin([new])
    gate.open.set()
    assert search.take(new, unit_s=None).final
    assert search.take(running, unit_s=None).final
    assert gate.begun == [running, new]
    search.close()


def test_kept_orders_are_bounded(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    monkeypatch.setattr(order_search, "_KEPT", 2)
    search = OrderSearch(method="tabu", seconds=0.3)
    asked = [problem(forward=f) for f in (3.0, 4.0, 5.0)]
    for each in asked:
        search.begin([each])
        search.take(each, unit_s=None)
    gate.begun.clear()
    search.begin([asked[2], asked[1]])
    search.begin([asked[0]])
    assert search.take(asked[0], unit_s=None).final
    assert gate.begun == [asked[0]]
    search.close()


def test_a_search_that_fails_is_told_to_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> Solution:
        raise ProblemError("no such method")

    monkeypatch.setattr(order_search, "solve", fails)
    search = OrderSearch(method="tabu", seconds=0.3)
    search.begin([problem()])
    with pytest.raises(ProblemError, match="no such method"):
        search.take(problem(), unit_s=None)
    search.close()

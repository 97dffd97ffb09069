"""auto: descents side by side, then CP-SAT on what they leave open; the cap kept, never worse than its start."""

import time
from dataclasses import replace

import pytest

from schedules.bounds import lower_bound
from schedules.builders import greedy, serial_1f1b
from schedules.check import check
from schedules.problem import Model, Problem
from schedules.replay import replay
from schedules.search import auto as module
from schedules.search.auto import aim, auto, descend, merit
from schedules.search.exact import Answer, Found
from schedules.search.limits import Limits
from tests.schedules.published import FOLDER, SERIAL_PEAK, published
from tests.schedules.strategies import for_all, problems

ENDLESS = float("inf")


def test_proved_problem_with_low_memory_ends_at_once():
    problem = Problem(2, (Model("a", [0, 1], 4, 1, 2, activation=1),))
    began = time.perf_counter()
    found = auto(problem, limits=Limits(seconds=60))
    assert check(problem, found.order).makespan == found.bound == 15
    assert time.perf_counter() - began < 20


def test_published_problem_is_proved_and_polished():
    problem = published(5)
    found = auto(problem, limits=Limits(seconds=120, steps=200_000))
    result = check(problem, found.order)
    assert result.makespan == found.bound == 225
    assert result.max_peak_memory == 15.6


@pytest.mark.parametrize("index", [2, 8, 11])
def test_cap_is_kept(index):
    problem = published(index).with_cap(SERIAL_PEAK[index])
    found = auto(problem, limits=Limits(seconds=120, steps=150_000))
    result = check(problem, found.order)
    assert result.makespan == found.bound == lower_bound(problem)
    assert result.max_peak_memory <= SERIAL_PEAK[index]


@for_all(problems(), examples=25)
def test_descents_are_never_worse_than_their_start_and_keep_the_cap(problem):
    """However short they are: a hard cap may not be reached by then."""
    start = greedy(problem)
    for steps in (0, 3000):
        limits = Limits(ENDLESS, steps=steps)
        order = descend(problem, start, limits=limits, goal=lower_bound(problem))
        check(problem, order)
        assert merit(problem, order) <= merit(problem, start)


def test_the_first_worker_to_meet_goal_and_memory_ends_the_others(monkeypatch):
    class Endless(module.Descent):
        def __init__(self, problem, start, *, seed, clock, apart):
            super().__init__(problem, start, seed=seed, clock=clock, apart=apart)
            self.seed, self.clock = seed, clock

        def within(self, **rest):
            while self.seed == 1 and not self.clock.over:
                time.sleep(0.01)
            return super().within(**rest)

    monkeypatch.setattr(module, "Descent", Endless)
    problem, began = published(5).with_cap(15.6), time.perf_counter()
    found = descend(problem, greedy(problem), limits=Limits(seconds=60, workers=2), goal=225)
    assert check(problem, found).makespan == 225
    assert time.perf_counter() - began < 30


def test_time_that_passed_before_the_search_is_not_given_to_it(monkeypatch):
    """Of a very large problem bound and greedy alone take seconds; laying it out for a search would take more."""
    problem = published(5).with_cap(15.6)
    monkeypatch.setattr(module, "Descent", None)  # would be called
    starts = (greedy(problem), greedy(problem.with_cap(None)))

    def slowly(call):
        return lambda *args: (time.sleep(0.05), call(*args))[1]

    with monkeypatch.context() as patched:
        patched.setattr(module, "lower_bound", slowly(lower_bound))
        assert auto(problem, limits=Limits(seconds=0.05)).order in starts
    monkeypatch.setattr(module, "aim", slowly(aim))
    assert descend(problem, starts[0], limits=Limits(seconds=0.05), goal=0) in starts


def test_workers_differ_by_their_seeds_and_the_best_is_kept():
    """Too few moves to meet the bound: each ends by its own count."""
    problem, limits = published(4), Limits(ENDLESS, steps=12_000, seed=5)
    alone = [descend(problem, greedy(problem), limits=replace(limits, seed=s), goal=0.0) for s in (5, 6)]
    assert alone[0] != alone[1]
    both = descend(problem, greedy(problem), limits=replace(limits, workers=2), goal=0.0)
    assert both == min(alone, key=lambda order: merit(problem, order))


def test_descents_under_a_cap_begin_above_it_where_that_is_shorter():
    problem = published(5).with_cap(15.6)
    seen = []

    class Recorded(module.Descent):
        def __init__(self, problem, start, **rest):
            seen.append(start)
            super().__init__(problem, start, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Descent", Recorded)
        descend(problem, greedy(problem), limits=Limits(ENDLESS, steps=0), goal=225)
        descend(problem, serial_1f1b(problem), limits=Limits(ENDLESS, steps=0), goal=225, apart=True)
    # the first comes to nothing within the cap, so that its start is held in its place
    assert seen == [greedy(published(5)), greedy(problem), serial_1f1b(problem)]


def test_aim_is_the_cap_or_else_the_serial_peak_or_else_what_any_order_needs():
    assert aim(published(5)) == 15.6
    assert aim(published(5).with_cap(20.0)) == 20.0
    for problem in (published(8), Problem(1, (Model("a", [0, 0], 1, 1, 2, activation=3),))):
        assert aim(problem) == max(problem.least_memory(0), replay(problem, serial_1f1b(problem)).max_peak_memory)


def test_merit_is_the_cap_first_then_time_then_memory_above_the_aim():
    problem = Problem(2, (Model("a", [0, 1], 4, 1, 2, activation=1),))
    serial, free = serial_1f1b(problem), problem.with_cap(None)
    rows = serial.rows
    packed = replace(serial, rows=(tuple(sorted(rows[0], key=lambda op: op.kind == "B")), rows[1]))  # GPipe on rank 0
    assert replay(problem, packed).max_peak_memory == 4
    assert merit(free, serial) < merit(free, packed)
    assert merit(problem.with_cap(4), serial) == merit(problem.with_cap(4), packed)  # memory within the cap is free
    slow = replace(serial, rows=tuple(one_by_one(row) for row in rows))
    assert replay(problem, slow).makespan > replay(problem, packed).makespan
    assert merit(problem.with_cap(3), slow) < merit(problem.with_cap(3), packed)
    assert merit(free, packed) < merit(free, slow)


def one_by_one(row):
    return tuple(sorted(row, key=lambda op: (op.microbatch, op.kind == "B")))


@for_all(problems(), examples=15)
def test_never_worse_than_greedy_and_within_the_cap(problem):
    found = auto(problem, limits=Limits(seconds=30, steps=3000))
    result = check(problem, found.order)
    assert lower_bound(problem) <= found.bound * (1 + 1e-9)
    assert found.bound <= result.makespan * (1 + 1e-9)
    assert merit(problem, found.order) <= merit(problem, greedy(problem))


def test_what_the_descents_leave_open_is_proved():
    """No order meets the bound: CP-SAT shows that the one found is the shortest."""
    models = (Model("a", [0, 1], 3, 1, 2, activation=1), Model("b", [1, 0], 3, 2, 2, activation=1))
    problem = Problem(2, models, memory_cap=1)
    found = auto(problem, limits=Limits(seconds=60, steps=20_000))
    assert check(problem, found.order).makespan == found.bound > lower_bound(problem)


def finish(monkeypatch, problem, order, *, exact=None, answer=None, limits=None):
    """auto, where the descents give `order` and CP-SAT what is named; with what CP-SAT was asked."""
    asked = []
    monkeypatch.setattr(module, "descend", lambda *args, **rest: order)
    monkeypatch.setattr(module, "least_makespan", lambda problem, **rest: asked.append("time") or exact)
    monkeypatch.setattr(module, "within", lambda problem, **rest: asked.append(rest) or answer)
    return auto(problem, limits=limits or Limits()), asked


def test_cp_sat_lowers_the_makespan_where_it_is_above_the_bound(monkeypatch):
    problem, serial = published(5), serial_1f1b(published(5))
    better = greedy(problem)
    found, asked = finish(monkeypatch, problem, serial, exact=Found(better, 226.0))
    assert (found, asked) == (Found(better, 226.0), ["time"])
    found, _ = finish(monkeypatch, problem, better, exact=Found(serial, 226.0))
    assert found == Found(better, 226.0)  # the order stays, the bound counts


def test_cp_sat_lowers_the_memory_where_the_makespan_meets_the_bound(monkeypatch):
    models = (Model("a", [0, 1], 4, 1, 2, activation=1),)
    problem = Problem(2, models)
    serial = serial_1f1b(problem)
    rows = (tuple(sorted(serial.rows[0], key=lambda op: op.kind == "B")), serial.rows[1])
    packed = replace(serial, rows=rows)
    assert replay(problem, packed).makespan == lower_bound(problem) == 15
    found, asked = finish(monkeypatch, problem, packed, answer=Answer(serial))
    assert found == Found(serial, 15)
    assert [(a["makespan"], a["peak"]) for a in asked] == [(15, 2)]
    found, _ = finish(monkeypatch, problem, packed, answer=Answer())
    assert found == Found(packed, 15)


def test_cp_sat_is_left_out_where_all_is_met_or_no_time_is_left_or_the_problem_is_large(monkeypatch):
    problem = Problem(2, (Model("a", [0, 1], 4, 1, 2, activation=1),))
    assert finish(monkeypatch, problem, serial_1f1b(problem))[1] == []
    slow = replace(serial_1f1b(problem), rows=tuple(one_by_one(row) for row in serial_1f1b(problem).rows))
    assert finish(monkeypatch, problem, slow, limits=Limits(seconds=0))[1] == []
    large = Problem(2, (Model("a", [0, 1], 700, 1, 2, activation=1),))
    slow = replace(serial_1f1b(large), rows=tuple(one_by_one(row) for row in serial_1f1b(large).rows))
    assert finish(monkeypatch, large, slow)[0].order == slow
    assert finish(monkeypatch, large, slow)[1] == []


def test_steps_make_it_reproducible():
    problem = published(5)
    orders = [auto(problem, limits=Limits(ENDLESS, steps=3000, seed=seed)).order for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_cap_far_below_the_serial_peak_still_gets_a_search():
    problem = published(5).with_cap(0.75 * 15.6)
    order = descend(problem, greedy(problem), limits=Limits(ENDLESS, steps=60_000), goal=225)
    assert check(problem, order).makespan < 0.92 * check(problem, greedy(problem)).makespan


def test_stages_on_several_ranks_are_annealed_too():
    problem = Problem.load(FOLDER / "llama65b_tp8_33b_tp4_p8.yaml")
    problem = problem.with_cap(replay(problem, serial_1f1b(problem)).max_peak_memory)
    found = auto(problem, limits=Limits(ENDLESS, steps=50_000))
    assert check(problem, found.order).makespan < 0.95 * check(problem, greedy(problem)).makespan


def test_descent_that_fails_ends_those_beside_it(monkeypatch):
    problem = published(2)

    class Failing(module.Descent):
        def __init__(self, problem, start, *, seed, clock, **rest):
            super().__init__(problem, start, seed=seed, clock=clock, **rest)
            self.seed, self.waits_for = seed, clock

        def within(self, **_):
            if self.seed == 0:
                raise RuntimeError("broken")
            while not self.waits_for.over:
                time.sleep(0.01)
            return False

    monkeypatch.setattr(module, "Descent", Failing)
    began = time.perf_counter()
    with pytest.raises(RuntimeError, match="broken"):
        descend(problem, greedy(problem), limits=Limits(seconds=20, workers=2), goal=225)
    assert time.perf_counter() - began < 10

"""Limits end a search at whichever comes first."""

from threading import Event

import pytest

from schedules.search.limits import Clock, Limits


def test_steps_run_out():
    clock = Clock(Limits(seconds=100, steps=5))
    assert [clock.take(3), clock.take(3), clock.take(3)] == [3, 2, 0]


def test_seconds_run_out():
    assert Clock(Limits(seconds=0)).take(3) == 0
    assert Clock(Limits(seconds=100)).take(3) == 3


def test_part_shares_both():
    assert Limits(10, 100, workers=2, seed=7).part(0.25) == Limits(2.5, 25, workers=2, seed=7)
    assert Limits(10).part(0.5).steps is None


def test_later_leaves_less_time_and_the_same_steps():
    assert Limits(seconds=5, steps=7, workers=2, seed=3).later(2) == Limits(seconds=3, steps=7, workers=2, seed=3)
    assert Limits(seconds=5).later(6).seconds == 0
    assert Limits(seconds=float("inf")).later(1e9).seconds == float("inf")


def test_over_where_either_limit_is_met():
    clock = Clock(Limits(seconds=100, steps=2))
    assert not clock.over
    clock.take(2)
    assert clock.over
    assert Clock(Limits(seconds=0, steps=2)).over
    assert not Clock(Limits(seconds=100)).over


def test_another_thread_may_stop_it():
    stop = Event()
    clock = Clock(Limits(seconds=100, steps=5), stop=stop)
    assert (clock.over, clock.take(2)) == (False, 2)
    stop.set()
    assert (clock.over, clock.take(2)) == (True, 0)


def test_used_is_the_share_of_the_steps_however_long_they_take(monkeypatch):
    clock = Clock(Limits(seconds=10, steps=8))
    at(monkeypatch, clock, seconds=5)
    assert clock.used == 0
    clock.take(2)
    assert clock.used == 0.25
    clock.take(100)
    assert clock.used == 1
    assert Clock(Limits(steps=0)).used == 1  # nothing to use: all is used


@pytest.mark.parametrize(("seconds", "share"), [(0, 0.0), (5, 0.5), (10, 1.0), (20, 1.0)])
def test_used_is_the_share_of_the_time_where_steps_are_free(monkeypatch, seconds, share):
    clock = Clock(Limits(seconds=10))
    at(monkeypatch, clock, seconds=seconds)
    assert clock.used == pytest.approx(share)
    assert clock.over == (share == 1)


def test_of_endless_time_none_is_ever_used(monkeypatch):
    clock = Clock(Limits(seconds=float("inf")))
    at(monkeypatch, clock, seconds=1e9)
    assert (clock.used, clock.over) == (0, False)


def at(monkeypatch, clock, *, seconds):
    """Let it be so many seconds after the clock began."""
    began = clock._ends - clock._limits.seconds if clock._ends < float("inf") else 0.0
    monkeypatch.setattr("schedules.search.limits.time.perf_counter", lambda: began + seconds)


def test_steps_given_back_can_be_drawn_again():
    clock = Clock(Limits(seconds=100, steps=5))
    assert clock.take(5) == 5
    clock.give_back(2)
    assert (clock.over, clock.used, clock.take(5), clock.over) == (False, 0.6, 2, True)

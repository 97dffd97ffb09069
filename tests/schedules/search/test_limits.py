"""Limits end a search at whichever comes first."""

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

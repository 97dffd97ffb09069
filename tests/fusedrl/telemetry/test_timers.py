"""Seconds add up by name, survive errors, and start afresh after each step."""

import pytest

from fusedrl.telemetry.timers import Timers


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_timers_nest_and_add_up() -> None:
    clock = Clock()
    timers = Timers(clock=clock)
    with timers("step"):
        for _ in range(2):
            with timers("gen"):
                clock.now += 1.5
        clock.now += 1.0
    assert timers.collect() == {"timing_s/gen": 3.0, "timing_s/step": 4.0}
    assert timers.collect() == {}


def test_time_until_an_error_counts() -> None:
    clock = Clock()
    timers = Timers(clock=clock)

    def work() -> None:
        with timers("gen"):
            clock.now += 2.0
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        work()
    assert timers.collect() == {"timing_s/gen": 2.0}


def test_queued_work_is_waited_for_at_both_ends() -> None:
    clock = Clock()
    queued = [5.0, 2.0]  # before the timer, and inside it

    def synchronize() -> None:
        clock.now += queued.pop(0)

    timers = Timers(clock=clock, synchronize=synchronize)
    with timers("gen"):
        pass
    assert timers.collect() == {"timing_s/gen": 2.0}


def test_spans_are_those_of_the_last_collect_on_the_clock() -> None:
    clock = Clock()
    timers = Timers(clock=clock)
    with timers("step"):
        clock.now += 1.0
        with timers("gen"):
            clock.now += 0.5
    assert timers.spans == []
    timers.collect()
    assert timers.spans == [("gen", 1_000_000_000, 1_500_000_000), ("step", 0, 1_500_000_000)]
    timers.collect()
    assert timers.spans == []


def test_an_error_carries_on_the_phases_that_it_ended() -> None:
    timers, error = Timers(clock=Clock()), RuntimeError("lost")
    with pytest.raises(RuntimeError), timers("step"), timers("gen"):
        raise error
    assert error.__notes__ == ["phase: gen", "phase: step"]

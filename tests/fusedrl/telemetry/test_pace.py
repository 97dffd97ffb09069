"""Time left follows the last steps."""

import pytest

from fusedrl.telemetry.pace import WINDOW, Pace, duration


def paced(seconds: list[float], *, total: int, first: int = 0) -> Pace:
    now = iter([0.0, *(sum(seconds[: n + 1]) for n in range(len(seconds)))])
    pace = Pace(total_steps=total, first_step=first, clock=lambda: next(now))
    for number in range(len(seconds)):
        pace.step_done(first + number + 1)
    return pace


def test_nothing_is_known_before_the_first_step() -> None:
    assert paced([], total=5).seconds_left is None


def test_time_left_is_the_pace_times_the_steps_left() -> None:
    assert paced([2.0, 4.0], total=10).seconds_left == pytest.approx(3.0 * 8)
    assert paced([2.0, 4.0], total=10, first=5).seconds_left == pytest.approx(3.0 * 3)
    assert paced([1.0] * 3, total=3).seconds_left == 0.0


def test_validation_before_the_first_step_does_not_count() -> None:
    now = iter([0.0, 50.0, 53.0])
    pace = Pace(total_steps=3, clock=lambda: next(now))
    pace.step_done(0)
    assert pace.seconds_per_step is None
    pace.step_done(1)
    assert pace.seconds_left == pytest.approx(6.0)


def test_the_pace_forgets_old_steps() -> None:
    assert paced([100.0] * 5 + [1.0] * WINDOW, total=50).seconds_per_step == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.2, "0s"), (42, "42s"), (59.6, "1m00s"), (185, "3m05s"), (3599.7, "1h00m"), (3720, "1h02m")],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text

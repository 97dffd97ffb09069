"""Silence, standstill and absence end a step, each by its own limit and with its own words."""

import pytest

from fusedrl.stream.liveness import IDLE, Limits, Liveness

LIMITS = Limits(pulse_s=1, silence_s=10, stall_s=50, join_s=20, step_s=500)


def test_a_silent_instance_is_dead_after_the_limit_and_not_before() -> None:
    liveness = Liveness([0, 1], limits=LIMITS, now=0)
    liveness.pulse(0, progress=1, activity="generating 3 samples", now=9)
    liveness.heard(1, now=14)
    assert liveness.trouble(missing=[], now=18.9) == ""
    assert liveness.trouble(missing=[], now=19.1) == "instance 0 was last heard 10.1 s ago, generating 3 samples: dead"


def test_pulses_without_progress_are_a_stall_unless_there_is_nothing_to_do() -> None:
    stuck, idle = Liveness([0], limits=LIMITS, now=0), Liveness([0], limits=LIMITS, now=0)
    for now in range(1, 60):
        stuck.pulse(0, progress=7, activity="running ref on 8 samples", now=now)
        idle.pulse(0, progress=7, activity=IDLE, now=now)
    assert stuck.trouble(missing=[], now=59) == "instance 0 is stuck for 50 s, running ref on 8 samples"
    assert idle.trouble(missing=[], now=59) == ""


def test_absence_counts_from_the_beginning_and_silence_only_once_all_are_there() -> None:
    liveness = Liveness([0, 1, 2], limits=LIMITS, now=100)
    assert liveness.trouble(missing=[1, 2], now=119) == ""
    assert liveness.trouble(missing=[1, 2], now=121) == "instances 1, 2 did not join within 20 s"


def test_a_step_has_an_end() -> None:
    liveness = Liveness([0], limits=LIMITS, now=0)
    for now in range(501):
        liveness.pulse(0, progress=now, activity="generating", now=now)
    assert liveness.trouble(missing=[], now=499) == ""
    assert "longer than rollout.stream.step_s=500 s" in liveness.trouble(missing=[], now=500.5)


@pytest.mark.parametrize("wrong", [{"pulse_s": 20.0}, {"pulse_s": 0.0}, {"stall_s": 0.0}, {"join_s": -1.0}])
def test_limits_that_cannot_hold_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"rollout\.stream\." + next(iter(wrong))):
        Limits(**wrong)

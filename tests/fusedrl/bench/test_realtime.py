import os

import pytest

from fusedrl.bench.realtime import going_first


def test_all_threads_go_first_for_the_time_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda thread, policy, how: told.append((thread, policy)))
    with going_first(asked=False):
        pass
    assert told == []
    with going_first(asked=True):
        assert os.getpid() in dict(told)
        assert {policy for _, policy in told} == {os.SCHED_RR}
        told.clear()
    assert os.getpid() in dict(told)
    assert {policy for _, policy in told} == {os.SCHED_OTHER}

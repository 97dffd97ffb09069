"""Table speed: medians, and figures that belong together."""

import pytest

from schedules.bench.speed import TABLE, median_seconds, report, run
from schedules.bench.table import Settings
from schedules.search.limits import Clock

SETTINGS = Settings("auto", 60, 200, 1, 0)


def test_median_is_of_as_many_times_as_told(monkeypatch):
    ends = iter([0, 9, 10, 11, 20, 23])  # three actions of 9, 1 and 3 seconds
    monkeypatch.setattr("schedules.bench.speed.time.perf_counter", lambda: next(ends))
    assert median_seconds(lambda: None, times=3) == 3


def test_replay_counts_all_ops():
    facts = run("exp0 replay", SETTINGS).facts
    ops = 8 * 32 * 2 + 8 * 16 * 2  # both kinds of both models: each critic copy is on half of the ranks
    assert facts["ops_per_second"] == pytest.approx(ops * facts["per_second"])
    assert facts["per_second"] == pytest.approx(1 / facts["seconds"])


@pytest.mark.parametrize("name", ["exp0", "exp9"])
def test_neighbours_are_looked_at_and_not_skipped_by_a_search_that_is_done(name, monkeypatch):
    looked_at = []

    class Counted(Clock):
        def take(self, steps):
            looked_at.append(super().take(steps))
            return looked_at[-1]

    monkeypatch.setattr("schedules.search.anneal.Clock", Counted)
    facts = run(f"{name} neighbours", SETTINGS).facts
    assert sum(looked_at) == 5 * facts["neighbours"] == 5 * 200
    assert facts["per_second"] * facts["seconds"] == pytest.approx(200)


def test_report_has_a_line_a_figure():
    rows = {
        "exp9 greedy": {"seconds": 0.12345},
        "exp0 replay": {"seconds": 0.01, "per_second": 100.0, "ops_per_second": 76800.4},
    }
    assert report(rows).splitlines()[2:] == [
        "| exp9 | greedy | 0.123 | - | - |",
        "| exp0 | replay | 0.01 | 100 | 76800 |",
    ]
    assert len([key for key in TABLE.keys if key.endswith("greedy")]) == 12

"""The tables' problems: the published ones as filed, and what is made of them."""

import pytest

from schedules.bench.problems import PUBLISHED, capped, crossed, published, serial_peak, split
from schedules.bounds import lower_bound
from schedules.replay import work_of
from tests.schedules import published as known


def test_published_problems_are_those_of_the_configs_and_none_is_beaten_by_its_bound():
    assert len(PUBLISHED) == 12
    for index, (name, result) in enumerate(PUBLISHED.items()):
        assert published(name) == known.published(index)
        assert result.makespan >= lower_bound(published(name)) == known.LOWER_BOUND[index]
        assert result.peak >= serial_peak(published(name)) == pytest.approx(known.SERIAL_PEAK[index])


def test_cap_is_a_multiple_of_serial_1f1bs_peak():
    assert capped(published("exp3"), ratio=1.1).memory_cap == 17.16
    assert capped(published("exp9"), ratio=1.25).memory_cap == 32.8


def test_split_halves_the_backward_and_changes_nothing_else():
    problem, whole = split(published("exp1")), published("exp1")
    assert work_of(problem) == work_of(whole)
    for model in problem.models:
        times = [model.duration(kind, 0, 0, split=True) for kind in ("F", "B", "W")]
        assert times[0] == times[1] == times[2] == whole.model(model.name).duration("F", 0, 0)


def test_crossed_problem_of_eight_ranks_is_the_published_one():
    assert crossed(published("exp3"), ranks=8, microbatches=8) == published("exp5")
    small = crossed(published("exp5"), ranks=4, microbatches=2)
    assert [model.placement for model in small.models] == [(0, 1, 2, 3), (3, 2, 1, 0)]
    assert {model.microbatches for model in small.models} == {2}

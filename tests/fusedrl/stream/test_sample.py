"""Stages follow the picture, and the counts follow the stages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.stream.sample import NEXT, IllegalTransition, Ledger, Stage

ALL = tuple(Stage)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(ALL)), max_size=60))
def test_only_drawn_steps_are_taken_and_counts_stay_true(steps: list[tuple[int, Stage]]) -> None:
    ledger = Ledger(range(4))
    for sample_id, to in steps:
        before = ledger.stage(sample_id)
        if to in NEXT[before]:
            ledger.move(sample_id, to=to)
            assert ledger.stage(sample_id) is to
        else:
            with pytest.raises(IllegalTransition, match=f"sample {sample_id} is {before.value}: .* {to.value}"):
                ledger.move(sample_id, to=to)
            assert ledger.stage(sample_id) is before
        found = [ledger.stage(each) for each in range(4)]
        assert all(ledger.counts[stage] == found.count(stage) for stage in ALL)
        unfinished = sum(stage in (Stage.QUEUED, Stage.GENERATING, Stage.MIGRATING) for stage in found)
        assert ledger.unfinished == unfinished
        assert ledger.all_ready == (found == [Stage.READY] * 4)


def test_the_shortest_life_and_one_with_a_move() -> None:
    ledger = Ledger([5, 7])
    for to in (Stage.GENERATING, Stage.FINISHED, Stage.SCORED, Stage.READY):
        ledger.move(5, to=to)
    for to in (Stage.GENERATING, Stage.MIGRATING, Stage.GENERATING, Stage.MIGRATING, Stage.FINISHED):
        ledger.move(7, to=to)
    assert not ledger.unfinished
    assert not ledger.all_ready


def test_two_samples_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="3 samples have 2 distinct ids"):
        Ledger([1, 2, 1])

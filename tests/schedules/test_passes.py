"""Passes change the form of an order, not its times."""

from schedules.builders import serial_1f1b
from schedules.passes import split_backward
from schedules.replay import replay
from tests.schedules.strategies import for_all, problems


@for_all(problems())
def test_splitting_in_place_changes_no_forward_and_no_row_end(problem):
    whole, split = serial_1f1b(problem), split_backward(problem, serial_1f1b(problem))
    before, after = replay(problem, whole), replay(problem, split)
    assert after.makespan <= before.makespan
    assert after.peak_memory == before.peak_memory
    assert [len(row) for row in split.rows] == [
        len(row) + sum(op.kind == "B" and problem.model(op.model).backward_weight is not None for op in row)
        for row in whole.rows
    ]


@for_all(problems(), examples=20)
def test_splitting_twice_is_splitting_once(problem):
    split = split_backward(problem, serial_1f1b(problem))
    assert split_backward(problem, split) == split

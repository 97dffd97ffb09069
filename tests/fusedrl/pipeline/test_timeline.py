import json
from dataclasses import replace

import pytest

from fusedrl.pipeline.timeline import (
    HostClock,
    TimedOp,
    Timeline,
    measured_problem,
    pack_ops,
    replayed,
    unpack_ops,
)
from schedules.builders.serial import serial_1f1b
from schedules.builders.zero_bubble import zero_bubble
from schedules.order import Op, Order
from schedules.problem import Model, Problem
from schedules.replay import replay

SECOND = 10**9


def problem() -> Problem:
    return Problem(ranks=2, models=(Model("actor", [0, 1], 3, forward=2.0, backward=5.0),))


def ideal_timeline(work: Problem, order: Order | None = None) -> Timeline:
    """Every op where the replay puts it, one unit a second."""
    order = order or serial_1f1b(work)
    result = replay(work, order)
    rows = (
        tuple(TimedOp(op, int(result.start[op] * SECOND) + 7, int(result.end[op] * SECOND) + 7) for op in row)
        for row in order.rows
    )
    return Timeline(tuple(rows), columns=(0, 1))


def test_measured_bubble_of_an_ideal_run_is_the_replays() -> None:
    expected = replay(problem(), serial_1f1b(problem()))
    timeline = ideal_timeline(problem())
    assert timeline.span == expected.makespan
    assert timeline.bubble_ratio == pytest.approx(expected.bubble_ratio, abs=1e-12)


def test_replay_of_measured_durations_is_the_run_itself() -> None:
    slower = Problem(ranks=2, models=(Model("actor", [0, 1], 3, forward=[2.0, 3.0], backward=[[4, 5, 6], [7, 8, 9]]),))
    timeline = ideal_timeline(slower)
    result = replayed(problem(), serial_1f1b(problem()), timeline)
    assert result.makespan == timeline.span
    assert result.bubble_ratio == pytest.approx(timeline.bubble_ratio, abs=1e-12)


def test_durations_of_replicas_are_averaged() -> None:
    def rank(duration: int) -> tuple[TimedOp, ...]:
        return (TimedOp(Op("critic", "F", 0, 0), 0, duration * SECOND),)

    work = Problem(ranks=1, models=(Model("critic", [0], 1, forward=9.0),))
    measured = measured_problem(work, Timeline((rank(1), rank(3)), columns=(0, 0)))
    assert measured.models[0].forward == 2.0
    assert measured.models[0].backward is None


def test_replay_takes_split_off_weight_parts_from_their_ops() -> None:
    work = Problem(ranks=2, models=(Model("actor", [0, 1], 3, forward=1.0, backward=4.0, backward_weight=2.0),))
    order = zero_bubble(work)
    timed = ideal_timeline(
        Problem(2, (replace(work.models[0], backward=[4.0, 5.0], backward_weight=[1.0, 2.0]),)), order
    )
    assert {t.op.kind for row in timed.ranks for t in row} == {"F", "B", "W"}
    assert replayed(work, order, timed).makespan == pytest.approx(timed.span, rel=1e-12)


def test_waiting_ranks_count_as_bubble() -> None:
    busy = (TimedOp(Op("actor", "F", 0, 0), 0, 4 * SECOND),)
    half = (TimedOp(Op("actor", "F", 0, 1), 1 * SECOND, 3 * SECOND),)
    assert Timeline((busy, half), columns=(0, 1)).bubble_ratio == pytest.approx(0.25)
    assert Timeline(((), ()), columns=(0, 1)).bubble_ratio == 0.0


@pytest.mark.parametrize(("ranks", "span"), [(3, 2262338651), (5, 1968267627), (7, 1887543859)])
def test_ranks_that_never_wait_have_a_bubble_of_0_whatever_rounding_says(ranks: int, span: int) -> None:
    rows = tuple((TimedOp(Op("actor", "F", 0, s), 0, span),) for s in range(ranks))
    ratio = Timeline(rows, columns=tuple(range(ranks))).bubble_ratio
    assert 0 <= ratio < 1e-12
    assert f"{ratio:.3f}" == "0.000"


def test_overhead_is_what_lies_between_ops_but_waiting() -> None:
    def op(number: int, start: int, end: int, asked: int | None = None) -> TimedOp:
        return TimedOp(Op("actor", "F", number, 0), start * SECOND, end * SECOND, asked and asked * SECOND)

    busy = (op(0, 0, 10), op(1, 11, 20), op(2, 30, 31, asked=23), op(3, 36, 37))
    assert Timeline((busy, busy[:1], ()), columns=(0, 1, 2)).overhead == 3.0  # of 1, 3, 5
    assert Timeline((busy[:1],), columns=(0,)).overhead == 0.0


def test_packing_keeps_ops() -> None:
    ops = (*ideal_timeline(problem()).ranks[1], TimedOp(Op("actor", "B", 2, 0), 5, 9, 4, 10))
    assert unpack_ops(json.loads(json.dumps(pack_ops(ops)))) == ops


def test_offset_moves_all_times_there_are() -> None:
    ops = (TimedOp(Op("actor", "B", 2, 0), 5, 9, 4, 10), TimedOp(Op("actor", "F", 0, 0), 1, 2))
    moved = (TimedOp(ops[0].op, 105, 109, 104, 110), TimedOp(ops[1].op, 101, 102))
    assert unpack_ops(pack_ops(ops), offset=100) == moved


def test_host_clock_moves_forward() -> None:
    clock = HostClock()
    marks = [clock.mark() for _ in range(3)]
    assert clock.resolve(marks) == sorted(marks)

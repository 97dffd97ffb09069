from dataclasses import replace

import pytest

from fusedrl.pipeline.program import make_program, receives_early
from schedules.builders.greedy import greedy
from schedules.builders.serial import serial_1f1b
from schedules.check import check
from schedules.lower import Compute, Recv, Send, lower
from schedules.order import Op, Order, OrderError
from schedules.problem import Model, Problem
from schedules.rendezvous import check_rendezvous
from tests.fusedrl.pipeline.orders import random_order


def problem(*, ranks: int = 3, backward_weight: float | None = None) -> Problem:
    line = list(range(ranks))
    actor = Model("actor", line, 5, forward=1.0, backward=2.0, backward_weight=backward_weight, activation=1.0)
    return Problem(ranks=ranks, models=(actor, Model("critic", line[::-1], 3, forward=0.7, backward=1.1)))


@pytest.mark.parametrize("seed", range(5))
def test_early_receives_keep_ops_messages_and_safety(seed: int) -> None:
    order = random_order(work := problem(), seed=seed)
    check(work, order)
    plain = lower(work, order)
    early = tuple(receives_early(row) for row in plain)
    check_rendezvous(early)
    for before, after in zip(plain, early, strict=True):
        assert [i for i in before if isinstance(i, Compute)] == [i for i in after if isinstance(i, Compute)]
        assert [i for i in before if not isinstance(i, Compute)] == [i for i in after if not isinstance(i, Compute)]


def test_receive_passes_the_computes_before_it_and_no_message() -> None:
    work = problem()
    row = next(r for r in lower(work, greedy(work)) if any(isinstance(i, Recv) for i in r))
    send = next(i for r in lower(work, greedy(work)) for i in r if isinstance(i, Send))
    receive = next(i for i in row if isinstance(i, Recv))
    one, two = Compute(Op("actor", "F", 0, 0)), Compute(Op("actor", "F", 1, 0))
    assert receives_early([one, send, two, receive, one]) == (one, send, receive, two, one)


def test_program_refuses_an_invalid_order() -> None:
    work = problem()
    order = greedy(work)
    with pytest.raises(OrderError, match="missing"):
        make_program(work, Order((order.rows[0][:-1], *order.rows[1:])))


def test_program_knows_which_backwards_are_split() -> None:
    work = problem(backward_weight=1.0)
    whole = serial_1f1b(work)
    assert make_program(work, whole).split == frozenset()
    row = [part for op in whole.rows[1] for part in ([op, replace(op, kind="W")] if op.kind == "B" else [op])]
    parted = [each for each in row if each.kind != "W" or (each.model, each.microbatch) in [("actor", 0), ("actor", 1)]]
    program = make_program(work, Order((whole.rows[0], tuple(parted), whole.rows[2])))
    assert program.split == {("actor", 1, 0), ("actor", 1, 1)}


def test_stage_on_several_columns_is_in_the_list_of_each_and_sends_column_to_column() -> None:
    work = Problem(ranks=4, models=(Model("actor", [[0, 1], [3, 2]], 1, forward=1.0, backward=1.0),))
    lists = make_program(work, greedy(work)).instructions
    assert [[str(each) for each in row] for row in lists[:2]] == [
        ["actor:F0@0", "send actor:F0@0->1", "recv actor:B0@1->0", "actor:B0@0"]
    ] * 2
    sent = [each.message for row in lists for each in row if isinstance(each, Send)]
    assert sorted((message.src_rank, message.dst_rank) for message in sent) == [(0, 3), (1, 2), (2, 1), (3, 0)]

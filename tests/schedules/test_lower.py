"""Lowered lists: one global sequence of messages, complete, and safe with blocking sends."""

import random

from hypothesis import strategies as st

from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.graph import build_graph, split_of
from schedules.lower import Compute, Message, Recv, Send, lower, messages_of, sequence
from schedules.order import Op, Order
from schedules.problem import Model, Problem
from schedules.rendezvous import check_rendezvous
from schedules.replay import replay
from tests.schedules.strategies import for_all, problems


@for_all(problems(capped=False), st.sampled_from([serial_1f1b, gpipe, greedy]))
def test_lists_never_hang_with_blocking_sends(problem, builder):
    check_rendezvous(lower(problem, builder(problem)))


@for_all(problems(capped=False))
def test_lists_hold_each_op_once_and_each_message_twice(problem):
    order = greedy(problem)
    lists = lower(problem, order)
    assert tuple(tuple(i.op for i in row if isinstance(i, Compute)) for row in lists) == order.rows
    sent = [(r, i.message) for r, row in enumerate(lists) for i in row if isinstance(i, Send)]
    received = [(r, i.message) for r, row in enumerate(lists) for i in row if isinstance(i, Recv)]
    expected = [m for op in build_graph(problem, split=split_of(order)).ops for m in messages_of(problem, op)]
    assert sorted(sent) == sorted((m.src_rank, m) for m in expected)
    assert sorted(received) == sorted((m.dst_rank, m) for m in expected)


@for_all(problems(capped=False))
def test_sequence_extends_the_replay(problem):
    """By time, and no event before one that it waits for."""
    order = greedy(problem)
    result = replay(problem, order)
    events = sequence(problem, order)
    place = {event: i for i, event in enumerate(events)}
    time = [result.start[e] if isinstance(e, Op) else result.end[_source(e)] for e in events]
    assert time == sorted(time)
    for event in events:
        if isinstance(event, Message):
            target = Op(event.model, event.kind, event.microbatch, event.dst_stage)
            assert place[_source(event)] < place[event] < place[target]


@for_all(problems(capped=False))
def test_each_rank_posts_what_it_needs_before_it_computes(problem):
    for row in lower(problem, serial_1f1b(problem)):
        done: set[object] = set()
        for instruction in row:
            if isinstance(instruction, Compute):
                done.add(instruction.op)
            elif isinstance(instruction, Send):
                assert _source(instruction.message) in done


@for_all(st.randoms(use_true_random=False))
def test_lowering_is_the_same_on_all_ranks(rng: random.Random):
    problem = Problem(2, (Model("a", [0, 1], 3, 1, 2), Model("b", [1, 0], rng.randint(1, 4), 1, 2)))
    order = greedy(problem)
    again = Problem.from_dict(problem.to_dict())
    assert lower(problem, order) == lower(again, Order(tuple(tuple(row) for row in order.rows)))


def test_neighbours_on_one_rank_need_no_message():
    problem = Problem(2, (Model("v", [0, 1, 1, 0], 1, 1, 1),))
    messages = [event for event in sequence(problem, gpipe(problem)) if isinstance(event, Message)]
    assert [(m.kind, m.src_stage, m.dst_stage) for m in messages] == [
        ("F", 0, 1),
        ("F", 2, 3),
        ("B", 3, 2),
        ("B", 1, 0),
    ]


def test_wide_stages_send_column_to_column():
    problem = Problem(4, (Model("w", [[0, 1], [2, 3]], 1, 1), Model("n", [0, [1, 2]], 1, 1)))
    wide = messages_of(problem, Op("w", "F", 0, 0))
    narrow = messages_of(problem, Op("n", "F", 0, 0))
    assert [(m.src_rank, m.dst_rank) for m in wide] == [(0, 2), (1, 3)]
    assert [(m.src_rank, m.dst_rank) for m in narrow] == [(0, 1), (0, 2)]


def _source(message):
    return Op(message.model, message.kind, message.microbatch, message.src_stage)

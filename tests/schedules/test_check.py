"""The check: every builder passes, every broken order is refused in one line."""

import random

import pytest
from hypothesis import strategies as st

from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.check import check
from schedules.order import Order, OrderError
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.strategies import for_all, problems

PROBLEM = Problem(2, (Model("a", [0, 1], 3, 1, 3, backward_weight=2, activation=1),), memory_cap=2)


@for_all(problems())
def test_all_builders_pass_and_greedy_keeps_the_cap(problem):
    assert check(problem, greedy(problem)) == replay(problem, greedy(problem))
    for builder in (serial_1f1b, gpipe):
        check(problem.with_cap(None), builder(problem))


@for_all(problems(capped=False), st.randoms(use_true_random=False))
def test_dropping_any_op_is_refused(problem, rng: random.Random):
    rows = [list(row) for row in gpipe(problem).rows]
    rank = rng.choice([r for r, row in enumerate(rows) if row])
    rows[rank].pop(rng.randrange(len(rows[rank])))
    with pytest.raises(OrderError, match="is missing"):
        check(problem, Order(tuple(map(tuple, rows))))


@pytest.mark.parametrize(
    ("rank0", "message"),
    [
        ("a:F0 a:F1 a:B0 a:F2 a:B1 a:B2", None),
        ("a:F0 a:F1 a:F2 a:B0 a:B1 a:B2", r"rank 0: peak memory 3 is above memory_cap 2"),
        ("a:F1 a:F0 a:B0 a:B1 a:F2 a:B2", r"rank 0: a:F0@0 comes after a:F1@0"),
        ("a:F0 a:F1 a:B0 a:W0 a:B1 a:W1 a:F2 a:B2 a:W2", None),
        ("a:F0 a:F1 a:B0 a:B1 a:W1 a:W0 a:F2 a:B2", r"rank 0: a:W0@0 comes after a:W1@0"),
        ("a:F0 a:F1 a:B0 a:B1 a:W0 a:F2 a:B2", r"rank 0: a:W0@0 comes after a:B1@0"),
        ("a:F0 a:F1 a:W0 a:B0 a:F2 a:B1 a:B2", r"ops wait for each other: .*a:W0@0 waits for a:B0@0"),
    ],
)
def test_sequence_on_a_rank(rank0, message):
    order = Order.from_text(f"{rank0}\na:F0 a:B0 a:F1 a:B1 a:F2 a:B2\n", PROBLEM)
    if message is None:
        assert check(PROBLEM, order).peak_memory == (2, 1)
    else:
        with pytest.raises(OrderError, match=message):
            check(PROBLEM, order)


def test_weight_op_of_a_model_without_a_weight_part_is_refused():
    problem = Problem(1, (Model("a", [0], 1, 1, 3),))
    with pytest.raises(OrderError, match="rank 0: a:W0@0, but a has no backward_weight"):
        check(problem, Order.from_text("a:F0 a:B0 a:W0\n", problem))

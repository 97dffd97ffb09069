"""Orders as text: round trip, stages named where needed, errors that name rank, position and token."""

import pytest

from schedules.builders import gpipe
from schedules.order import Op, Order, OrderError
from schedules.problem import Model, Problem
from tests.schedules.strategies import for_all, problems

V = Problem(2, (Model("v", [0, 1, 1, 0], 1, 1, 1), Model("line", [0, 1], 1, 1, 1)))


@for_all(problems())
def test_text_round_trip(problem):
    order = gpipe(problem)
    assert Order.from_text(order.to_text(problem), problem) == order


def test_stage_is_named_only_where_a_rank_holds_several():
    order = Order(((Op("v", "F", 0, 3), Op("line", "F", 0, 0)), ()))
    assert order.to_text(V) == "v:F0@3 line:F0\n\n"


def test_comments_are_skipped():
    text = "# two ranks\nline:F0 # first\nline:F0\n"
    assert Order.from_text(text, V).rows == ((Op("line", "F", 0, 0),), (Op("line", "F", 0, 1),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("line:F0\n", "1 rows for 2 ranks"),
        ("line:X0\n\n", "rank 0, position 0, 'line:X0': not an op"),
        ("line:F0 line:F\n\n", "rank 0, position 1, 'line:F': not an op"),
        ("\nmine:F0\n", "rank 1, position 0, 'mine:F0': the problem has no model 'mine'"),
        ("v:F0\n\n", r"rank 0, position 0, 'v:F0': rank 0 holds the stages \[0, 3\] of v; name one: v:F0@0"),
        ("v:F0@1\n\n", "rank 0, position 0, 'v:F0@1': stage 1 of v is not on rank 0"),
    ],
)
def test_bad_text_names_the_place(text, message):
    with pytest.raises(OrderError, match=f"^{message}"):
        Order.from_text(text, V)


def test_model_without_a_stage_on_the_rank_is_refused():
    with pytest.raises(OrderError, match="a has no stage on rank 1"):
        Order.from_text("\na:F0\n", Problem(2, (Model("a", [0], 1, 1),)))

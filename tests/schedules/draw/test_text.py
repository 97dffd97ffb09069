"""The text grid shows every rank, op and bubble in its place."""

from schedules.builders import gpipe
from schedules.draw.text import text_grid
from schedules.order import Order
from schedules.problem import Model, Problem


def test_two_stage_pipeline_by_hand():
    problem = Problem(2, (Model("actor", [0, 1], 1, 1, 3, backward_weight=1, activation=1),))
    order = Order.from_text("actor:F0 actor:B0\nactor:F0 actor:B0 actor:W0\n", problem)
    lines = text_grid(problem, order, width=21).splitlines()
    assert lines[0] == ("A actor; makespan 7, bubble ratio 42.86%, peak memory 1; upper case F, lower case B, star W")
    assert lines[1:] == ["rank 0  |A0-.........a0-------", "rank 1  |...A0-a0----a*0......"]


def test_models_of_one_initial_get_letters_of_their_own():
    problem = Problem(1, (Model("aa", [0], 1, 1), Model("ab", [0], 1, 1), Model("aab", [0], 1, 1)))
    assert text_grid(problem, gpipe(problem)).startswith("A aa, B ab, C aab;")

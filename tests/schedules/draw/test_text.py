"""The text grid shows every rank, op and bubble in its place, in lines that the reader's window holds."""

import io
import re

import pytest

from schedules.builders import gpipe, greedy
from schedules.draw.text import Scale, room_of, takes_color, text_grid
from schedules.order import Order
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.published import published
from tests.schedules.strategies import for_all, problems

CODES = re.compile(r"\x1b\[[0-9;]*m")
SPLIT = Problem(2, (Model("actor", [0, 1], 1, 2, 6, backward_weight=4, activation=1),))
ORDER = Order.from_text("actor:F0 actor:B0\nactor:F0 actor:B0 actor:W0\n", SPLIT)


def body(grid, ranks):
    """The rows, folds put together again."""
    lines = [line.partition("|")[2] for line in grid.splitlines() if line.startswith("rank ")]
    return ["".join(lines[rank::ranks]) for rank in range(ranks)]


def test_two_stage_pipeline_by_hand():
    lines = text_grid(SPLIT, ORDER).splitlines()
    assert lines[0] == (
        "A actor; makespan 12, bubble ratio 33.33%, peak memory 1; upper case F, lower case B, star W; "
        "a column is 2 of time"
    )
    assert lines[1:] == ["time     0", "rank 0  |A..a0-", "rank 1  |.Aaa*."]


def test_long_rows_are_folded_and_nothing_is_lost():
    problem = published(5)
    grid = text_grid(problem, greedy(problem), width=50)
    whole = text_grid(problem, greedy(problem), width=10_000)
    assert body(grid, 8) == body(whole, 8)
    assert max(map(len, grid.splitlines())) == 59
    assert grid.count("\ntime ") == 5  # 227 columns


def test_times_stand_over_their_columns():
    grid = text_grid(published(5), greedy(published(5)), width=50)
    assert "\ntime     50        60        70        80        90\n" in grid


def test_number_is_whole_or_left_out():
    problem = Problem(1, (Model("a", [0], 12, 2),))
    assert body(text_grid(problem, gpipe(problem)), 1) == ["A" * 12]
    problem = Problem(1, (Model("a", [0], 12, 2), Model("b", [0], 1, 1)))
    assert body(text_grid(problem, gpipe(problem)), 1) == ["A0A1A2A3A4A5A6A7A8A9A-A-B"]


@for_all(problems())
def test_bubbles_are_the_columns_without_work(problem):
    order = greedy(problem)
    grid, result = text_grid(problem, order), replay(problem, order)
    unit = float(re.search(r"a column is ([0-9.e-]+) of time", grid.replace("\n", " "))[1])
    durations = {op: (result.end[op] - result.start[op]) / (unit or 1) for row in order.rows for op in row}
    if all(abs(columns - round(columns)) < 1e-6 for columns in durations.values()):  # else they were rounded
        for rank, row in enumerate(body(grid, problem.ranks)):
            assert len(row) - row.count(".") == pytest.approx(sum(durations[op] for op in order.rows[rank]))


def test_messages_between_ops_do_not_stretch_the_grid():
    problem = Problem(2, (Model("a", [0, 1], 2, 2, 4),), comm=0.1)
    assert "a column is 2 of time" in text_grid(problem, gpipe(problem))


@pytest.mark.parametrize("forward", [0.012345, 1 / 3, 1e-9, 1e90, 1e-300])
def test_any_unit_of_time_gives_a_short_grid(forward):
    problem = Problem(2, (Model("a", [0, 1], 4, forward, 2.17 * forward),))
    rows = body(text_grid(problem, gpipe(problem)), 2)
    assert rows[0].startswith("A0-A1-A2-A3-.")
    assert 35 <= len(rows[0]) <= 60


def test_ops_that_vanish_beside_others_do_not_stretch_the_grid():
    problem = Problem(2, (Model("a", [0, 1], 2, [1e-320, 5], 1e-300),), comm=1e50)
    rows = body(text_grid(problem, gpipe(problem), width=30, most_folds=2), 2)
    assert {len(row) for row in rows} == {60}


def test_ops_too_short_for_a_column_do_not_set_the_scale():
    problem = Problem(2, (Model("a", [0, 1], 2, [1e-9, 5], 5),))
    assert {len(row) for row in body(text_grid(problem, gpipe(problem)), 2)} == {5}


def test_halves_of_a_column_go_up_wherever_an_op_starts():
    scale = Scale(makespan=20.0, columns=10.0)
    assert [scale.column(time) for time in (0, 0.9, 1, 3, 5, 20)] == [0, 0, 1, 2, 3, 10]
    assert [scale.time(column) for column in (0, 5)] == [0, 10]


def test_long_orders_give_way_to_the_room_and_say_so():
    problem = published(9)
    grid = text_grid(problem, greedy(problem), width=60, most_folds=1)
    assert len(grid.splitlines()) <= 16 + 5
    assert re.search(r"a column is 10\.\d+ of time, too much for \d+ of the ops", grid.replace("\n", " "))
    assert {len(row) for row in body(grid, 16)} == {60}
    many = Problem(400, (Model("a", list(range(400)), 1, 1),))
    assert text_grid(many, gpipe(many)).count("\ntime ") == 1


def test_work_without_duration_is_no_error():
    problem = Problem(1, (Model("a", [0], 2, 0, 0),))
    assert body(text_grid(problem, gpipe(problem)), 1) == ["."]


def test_models_of_one_initial_get_letters_of_their_own():
    problem = Problem(1, (Model("aa", [0], 1, 1), Model("ab", [0], 1, 1), Model("aab", [0], 1, 1)))
    assert text_grid(problem, gpipe(problem)).startswith("A aa, B ab, C aab;")


def test_colours_add_codes_and_change_no_letter():
    plain, colored = (text_grid(SPLIT, ORDER, color=color) for color in (False, True))
    assert CODES.sub("", colored) == plain
    assert "\x1b" not in plain
    for line in colored.splitlines():
        assert not line.startswith("rank") or line.count("\x1b[0m") >= 1
    assert len(set(CODES.findall(colored))) == 4  # F, B, W and back to none


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert takes_color(Terminal())
    assert not takes_color(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not takes_color(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not takes_color(Terminal())


def test_room_is_the_terminals_or_120(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert room_of(Terminal()) == 71
    assert room_of(io.StringIO()) == 120
    monkeypatch.setenv("COLUMNS", "5")
    assert room_of(Terminal()) == 20

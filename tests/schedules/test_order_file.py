"""Order files: round trip; another problem's order and a cut file are refused in one line."""

import pytest
from hypothesis import strategies as st

from schedules.builders import gpipe, serial_1f1b
from schedules.check import check
from schedules.order import OrderError
from schedules.order_file import from_csv, load_order, load_record, record_of, save_order, to_csv
from schedules.problem import Model, Problem
from schedules.record import Record
from tests.schedules.strategies import for_all, problems

PROBLEM = Problem(2, (Model("actor", [0, 1], 12, 1, 2), Model("critic", [1, 0], 12, 1, 2)))
TEXT = to_csv(PROBLEM, serial_1f1b(PROBLEM))
RECORD = Record(75, 72, False, 2, None, "serial", 0, 0.25)
RECORDED = to_csv(PROBLEM, serial_1f1b(PROBLEM), record=RECORD)


@for_all(problems())
def test_csv_round_trip(problem):
    order = gpipe(problem)
    assert from_csv(problem, to_csv(problem, order)) == order


def test_file_round_trip_and_the_same_bytes_each_time(tmp_path):
    order = serial_1f1b(PROBLEM)
    save_order(tmp_path / "o.csv", problem=PROBLEM, order=order)
    assert (tmp_path / "o.csv").read_text() == TEXT
    assert load_order(tmp_path / "o.csv", problem=PROBLEM) == order


@for_all(st.sampled_from([TEXT, RECORDED]), st.floats(0, 1))
def test_file_cut_anywhere_is_refused_in_one_line(text, share):
    with pytest.raises(OrderError) as caught:
        check(PROBLEM, from_csv(PROBLEM, text[: int(share * (len(text) - 2))]))
    assert "\n" not in str(caught.value)


def test_record_is_a_line_of_its_own_which_older_files_lack(tmp_path):
    save_order(tmp_path / "o.csv", problem=PROBLEM, order=serial_1f1b(PROBLEM), record=RECORD)
    assert load_record(tmp_path / "o.csv") == RECORD
    assert load_order(tmp_path / "o.csv", problem=PROBLEM) == serial_1f1b(PROBLEM)
    lines = RECORDED.splitlines(keepends=True)
    assert "".join([lines[0], *lines[2:]]) == TEXT
    assert record_of(TEXT) is None


def test_second_line_that_is_no_record_is_refused():
    with pytest.raises(OrderError, match="line 2: not a record of an order"):
        from_csv(PROBLEM, RECORDED.replace("seed 0", "seed zero"))


def test_file_without_its_last_ops_is_told_to_be_cut_short():
    short = TEXT.rstrip().rsplit(",", 1)[0] + "\n"
    with pytest.raises(OrderError, match="the file was cut short or changed: its header counts 2 ranks and 96 ops"):
        from_csv(PROBLEM, short)


def test_order_of_another_problem_is_refused():
    other = Problem(2, (Model("actor", [0, 1], 12, 1, 2), Model("critic", [1, 0], 12, 1, 2.5)))
    with pytest.raises(OrderError, match=f"made for problem {PROBLEM.digest}, this problem is {other.digest}"):
        from_csv(other, TEXT)


def test_memory_cap_does_not_make_it_another_problem():
    assert from_csv(PROBLEM.with_cap(100), TEXT) == serial_1f1b(PROBLEM)


def test_rows_out_of_place_are_named():
    with pytest.raises(OrderError, match="line 3: expected the row of rank 1, it begins with '7'"):
        from_csv(PROBLEM, TEXT.replace("\n1,", "\n7,"))


def test_missing_and_binary_files_are_named(tmp_path):
    (tmp_path / "o.csv").write_bytes(b"\xff\xfe\x00")
    for name, message in (("o.csv", "not a text file"), ("no.csv", "No such file")):
        with pytest.raises(OrderError, match=f"{name}: {message}"):
            load_order(tmp_path / name, problem=PROBLEM)


def test_rows_below_a_record_are_named_by_their_own_line():
    with pytest.raises(OrderError, match="line 4: expected the row of rank 1, it begins with '7'"):
        from_csv(PROBLEM, RECORDED.replace("\n1,", "\n7,"))

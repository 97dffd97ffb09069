"""Rows in files: appended whole, read back, and what is no row is named."""

import pytest

from schedules.bench.lines import append, done, read
from schedules.bench.table import RowError, Settings

SETTINGS = Settings("auto", 60.0, None, 2, 0)
OTHER = Settings("auto", 30.0, None, 2, 0)


def add(path, row, settings=SETTINGS, table="front"):
    append(path, table=table, row=row, settings=settings, facts={"makespan": 3.5})


def test_rows_carry_their_settings_and_versions(tmp_path):
    add(tmp_path / "a.jsonl", "exp0")
    (line,) = read([tmp_path / "a.jsonl"])
    assert line["settings"] == {"method": "auto", "time_limit": 60, "steps": None, "workers": 2, "seed": 0}
    assert set(line["versions"]) == {"python", "numba", "ortools"}
    assert line["facts"] == {"makespan": 3.5}


def test_done_is_what_the_same_table_and_settings_have(tmp_path):
    path = tmp_path / "a.jsonl"
    assert done(path, table="front", settings=SETTINGS) == set()
    add(path, "exp0")
    add(path, "exp1", OTHER)
    add(path, "exp2", table="split")
    assert done(path, table="front", settings=SETTINGS) == {"exp0"}


@pytest.mark.parametrize("text", ['{"table": "front"}\n', "x\n", '{"table": "fr'])
def test_what_is_no_row_is_named_by_file_and_line(tmp_path, text):
    path = tmp_path / "a.jsonl"
    add(path, "exp0")
    path.write_text(path.read_text() + text)
    with pytest.raises(RowError, match=r"a\.jsonl: line 2: not a row of a table"):
        read([path])


def test_row_after_a_line_that_was_cut_at_its_end_is_a_line_of_its_own(tmp_path):
    path = tmp_path / "a.jsonl"
    add(path, "exp0")
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    add(path, "exp1")
    assert [line["row"] for line in read([path])] == ["exp0", "exp1"]


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe{}\n",
        b"[" * 100_000 + b"\n",
        b'{"table": "front", "row": ["a"], "settings": {}, "versions": {}, "facts": {}}\n',
        b'{"table": "front", "row": "a", "settings": [], "versions": {}, "facts": {}}\n',
    ],
)
def test_what_is_no_row_is_one_line_that_names_the_file(tmp_path, text):
    path = tmp_path / "a.jsonl"
    path.write_bytes(text)
    with pytest.raises(RowError, match=r"a\.jsonl") as caught:
        read([path])
    assert "\n" not in str(caught.value)

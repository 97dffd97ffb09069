import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusedrl.data.files import RowError, read_rows

CHAT = [{"role": "user", "content": "3 + 4?"}]
FULL = {
    "prompt": "3+4=",
    "data_source": "sums",
    "reward_model": {"style": "rule", "ground_truth": "7"},
    "extra_info": {"index": 5},
}


def write(folder: Path, *lines: Any, name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_a_row_has_verl_s_columns_and_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    (row,) = read_rows([path])
    assert (row.prompt, row.data_source, row.ground_truth, row.extra_info) == ("3+4=", "sums", "7", {"index": 5})
    assert row.place == f"{path}:1"


def test_a_chat_stays_messages_and_an_answer_is_the_ground_truth(tmp_path: Path) -> None:
    (row,) = read_rows([write(tmp_path, {"prompt": CHAT, "answer": "7"})])
    assert row.prompt == CHAT
    assert row.ground_truth == "7"
    assert (row.data_source, row.extra_info) == ("", {})


@pytest.mark.parametrize("truth", [0, 0.0, "", False])
def test_a_ground_truth_that_is_falsy_is_given_not_missing(tmp_path: Path, truth: Any) -> None:
    (row,) = read_rows([write(tmp_path, {"prompt": "0=", "answer": "5", "reward_model": {"ground_truth": truth}})])
    assert row.ground_truth == truth
    assert type(row.ground_truth) is type(truth)


def test_files_follow_each_other_and_blank_lines_keep_the_numbering(tmp_path: Path) -> None:
    first = write(tmp_path, "", FULL, "  ", FULL, "", name="a.jsonl")
    second = write(tmp_path, FULL, name="b.jsonl")
    assert [row.place for row in read_rows([first, second])] == [f"{first}:2", f"{first}:4", f"{second}:1"]


def test_only_newlines_end_a_row(tmp_path: Path) -> None:
    text = "one\u2028two\u0085three"  # line ends to str.splitlines, plain characters inside JSON
    path = write(tmp_path, json.dumps({"prompt": text}, ensure_ascii=False), FULL)
    assert [row.prompt for row in read_rows([path])] == [text, "3+4="]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"prompt": "a"', "not JSON"),
        ('{"prompt": "a", "answer": ' + "7" * 5000 + "}", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"prompt": "a", "extra_info": {"x": ' + "[" * 200 + "]" * 200 + "}}", "nested deeper than 100"),
        ('{"prompt": "a\\ud800"}', r"text holds \ud800, one half of a character"),
        ('{"prompt": [{"role": "user", "content": "\\udfff"}]}', r"text holds \udfff"),
        ('{"prompt": "a", "answer": ["\\udc00\\ud800"]}', r"text holds \udc00"),
        ('{"prompt": "a", "extra_info": {"\\ud83d": 1}}', r"text holds \ud83d"),
        ("[1, 2]", "a row is an object with 'prompt', not list"),
        ({"data_source": "sums", "question": "a"}, "prompt is missing; the row has data_source, question"),
        ({"prompt": ""}, "prompt must be text"),
        ({"prompt": 3}, "found 3"),
        ({"prompt": []}, "prompt must be text"),
        ({"prompt": [{"role": "user"}]}, "a list of messages with role and content"),
        ({"prompt": "a", "data_source": 3}, "data_source must be str, not int"),
        ({"prompt": "a", "extra_info": [1]}, "extra_info must be dict, not list"),
        ({"prompt": "a", "reward_model": "7"}, "reward_model must be dict, not str"),
        ({"prompt": "a", "reward_model": {"style": "rule"}}, "reward_model has no ground_truth; it has style"),
    ],
)
def test_an_unusable_row_is_named_by_file_and_line(tmp_path: Path, line: Any, reason: str) -> None:
    path = write(tmp_path, FULL, "", line, FULL)
    with pytest.raises(RowError) as caught:
        read_rows([path])
    assert str(caught.value).startswith(f"{path}:3: ")
    assert str(caught.value).isprintable()
    assert reason in str(caught.value)


@pytest.mark.parametrize("depth", [1, 98])
def test_whole_characters_and_bounded_depth_are_taken(tmp_path: Path, depth: int) -> None:
    line = '{"prompt": "\\ud83d\\ude00", "extra_info": {"x": ' + "[" * depth + "]" * depth + "}}"
    (row,) = read_rows([write(tmp_path, line)])
    assert row.prompt == "\U0001f600"


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    plain, marked = write(tmp_path, FULL, FULL), tmp_path / "marked.jsonl"
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    found, expected = read_rows([marked]), read_rows([plain])
    assert [replace(row, place="") for row in found] == [replace(row, place="") for row in expected]


def test_missing_empty_and_undecodable_files_are_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RowError, match=r"absent\.jsonl: cannot be read"):
        read_rows([tmp_path / "absent.jsonl"])
    with pytest.raises(RowError, match=r"empty\.jsonl: the file holds no row"):
        read_rows([write(tmp_path, "", name="empty.jsonl")])
    with pytest.raises(RowError, match=r"binary\.jsonl: cannot be read"):
        read_rows([binary])


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(RowError, match=r"rows\.parquet: parquet needs pyarrow \(pip install fusedrl\[parquet\]\)"):
        read_rows([tmp_path / "rows.parquet"])


def test_parquet_rows_equal_jsonl_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [FULL, FULL | {"prompt": "1+1=", "extra_info": {"index": 6}}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    found, expected = read_rows([tmp_path / "rows.parquet"]), read_rows([write(tmp_path, *rows)])
    for row, other in zip(found, expected, strict=True):
        assert replace(row, place="") == replace(other, place="")
    assert found[1].place == f"{tmp_path / 'rows.parquet'}:2"


def test_broken_parquet_files_and_rows_are_named(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist([FULL, FULL | {"prompt": ""}]), tmp_path / "rows.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"no table")
    with pytest.raises(RowError, match=r"rows\.parquet:2: prompt must be text"):
        read_rows([tmp_path / "rows.parquet"])
    with pytest.raises(RowError, match=r"broken\.parquet: cannot be read"):
        read_rows([tmp_path / "broken.parquet"])
    with pytest.raises(RowError, match=r"absent\.parquet: cannot be read"):
        read_rows([tmp_path / "absent.parquet"])

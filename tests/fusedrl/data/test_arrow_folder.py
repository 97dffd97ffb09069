"""Folders laid out as datasets' save_to_disk lays them out."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusedrl.data.files import RowError, read_rows
from tests.fusedrl.data.test_files import CHAT, FULL, write

pyarrow = pytest.importorskip("pyarrow")


def save(folder: Path, *shards: list[dict[str, Any]], batch: int = 2) -> Path:
    """Each shard a stream, of batches of a few rows."""
    folder.mkdir(parents=True)
    names = [f"data-{index:05}-of-{len(shards):05}.arrow" for index in range(len(shards))]
    for name, rows in zip(names, shards, strict=True):
        table = pyarrow.Table.from_pylist(rows)
        with pyarrow.ipc.new_stream(str(folder / name), table.schema) as stream:
            stream.write_table(table, max_chunksize=batch)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    return folder


def test_rows_of_a_dataset_on_disk_equal_jsonl_rows_in_the_sequence_of_its_files(tmp_path: Path) -> None:
    rows = [FULL | {"prompt": f"{index}+1="} for index in range(7)]
    found = read_rows([save(tmp_path / "data", rows[:3], rows[3:])])
    expected = read_rows([write(tmp_path, *rows)])
    assert [replace(row, place="") for row in found] == [replace(row, place="") for row in expected]
    assert [row.place for row in found] == [f"{tmp_path / 'data'}:{number}" for number in range(1, 8)]


def test_a_chat_stays_messages(tmp_path: Path) -> None:
    (found,) = read_rows([save(tmp_path / "data", [{"prompt": CHAT, "answer": "7"}])])
    assert (found.prompt, found.ground_truth) == (CHAT, "7")


def test_an_unusable_row_is_named_by_folder_and_number(tmp_path: Path) -> None:
    folder = save(tmp_path / "data", [FULL], [FULL, FULL | {"prompt": ""}])
    with pytest.raises(RowError, match=r"data:3: prompt must be text"):
        read_rows([folder])


def test_a_folder_of_splits_names_them_and_other_folders_say_what_is_missing(tmp_path: Path) -> None:
    for split in ("train", "test"):
        save(tmp_path / "both" / split, [FULL])
    (tmp_path / "both" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(RowError, match=r"both: a dataset of the splits test, train; name one, .*both/test"):
        read_rows([tmp_path / "both"])
    (tmp_path / "neither").mkdir()
    (tmp_path / "neither" / "dataset_dict.json").write_text("{}")
    with pytest.raises(RowError, match=r"neither: a dataset of several splits, but none of their folders is there"):
        read_rows([tmp_path / "neither"])
    with pytest.raises(RowError, match=r"a folder without state.json"):
        read_rows([tmp_path])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("[]", r"state\.json"),
        ("{}", r"state\.json: no list of _data_files"),
        ('{"_data_files": [{"filename": "../rows.arrow"}]}', r"\.\./rows\.arrow is not the name of a file in this"),
        ('{"_data_files": [{"filename": "/rows.arrow"}]}', "/rows.arrow is not the name of a file in this folder"),
        ('{"_data_files": [{"filename": "gone.arrow"}]}', r"gone\.arrow: cannot be read"),
        ('{"_data_files": [{"filename": "state.json"}]}', r"state\.json: cannot be read"),
        ('{"_data_files": [], "_indices_data_files": [{}]}', "picked by an index file"),
        ('{"_data_files": []}', "the file holds no row"),
    ],
)
def test_a_state_that_cannot_be_followed_is_named(tmp_path: Path, state: str, message: str) -> None:
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(RowError, match=message):
        read_rows([tmp_path])


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_values_that_no_python_object_can_hold_are_told_in_one_line(tmp_path: Path, kind: str) -> None:
    days = pyarrow.array([10**9], type=pyarrow.int32()).cast(pyarrow.date32())
    table = pyarrow.table({"prompt": ["1+1="], "day": days})
    path = save(tmp_path / "data", [FULL])
    if kind == "arrow":
        with pyarrow.ipc.new_stream(str(path / "data-00000-of-00001.arrow"), table.schema) as stream:
            stream.write_table(table)
    else:
        path = tmp_path / "data.parquet"
        pytest.importorskip("pyarrow.parquet").write_table(table, str(path))
    with pytest.raises(RowError, match="cannot be read: "):
        read_rows([path])


def test_a_stream_that_breaks_off_between_two_batches_is_no_whole_one(tmp_path: Path) -> None:
    path = save(tmp_path / "data", [FULL] * 4) / "data-00000-of-00001.arrow"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(RowError, match=r"\.arrow: breaks off before its end; save it anew"):
        read_rows([tmp_path / "data"])


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RowError, match=r"needs pyarrow \(pip install fusedrl\[parquet\]\)"):
        read_rows([tmp_path])

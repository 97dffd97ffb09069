"""The file of responses is whole or growing, goes on where it was, and keeps to one request."""

import json
from pathlib import Path

import pytest

from fusedrl.trainers import response_file
from fusedrl.trainers.response_file import ResponseFile, other_request, part_path, request_path

REQUEST = {"model": "m", "n": 2, "temperature": 0.5}


def opened(path: Path, *, afresh: bool = False, request: dict[str, object] = REQUEST) -> ResponseFile:
    return ResponseFile(path, request, afresh=afresh)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def begun(path: Path, *rows: int) -> ResponseFile:
    file = opened(path)
    for row in rows:
        file.write(row, {"responses": [f"of {row}"]})
    return file


def test_rows_come_in_any_order_and_end_in_their_own(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "responses.jsonl"
    file = begun(path, 2, 0, 1)
    assert not path.exists()
    assert [line["index"] for line in lines(part_path(path))] == [2, 0, 1]
    file.finish()
    assert lines(path) == [{"index": row, "responses": [f"of {row}"]} for row in range(3)]
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, request_path(path).name]


@pytest.mark.parametrize(
    "torn", [b"", b'{"index": 5, "respo', b'{"index": 5}', b"\x00\xff\n", b'{"index": 1}\n', b"7\n"]
)
def test_an_interrupted_run_goes_on_behind_its_last_whole_line(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "responses.jsonl"
    begun(path, 3, 1).close()
    whole = part_path(path).read_bytes()
    with part_path(path).open("ab") as file:
        file.write(torn)
    again = opened(path)
    assert again.done == {3, 1}
    assert part_path(path).read_bytes() == whole
    for row in (0, 2):
        again.write(row, {"responses": [f"of {row}"]})
    again.finish()
    assert [line["index"] for line in lines(path)] == [0, 1, 2, 3]
    assert opened(path).finished


@pytest.mark.parametrize("finished", [True, False])
def test_responses_to_another_request_are_not_touched(tmp_path: Path, finished: bool) -> None:
    path = tmp_path / "responses.jsonl"
    file = begun(path, 0)
    if finished:
        file.finish()
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"temperature: 0\.5 there, 0\.7 here, top_k: null there, 4 here") as caught:
        opened(path, request={**REQUEST, "temperature": 0.7, "top_k": 4})
    assert str(caught.value).startswith(f"output.path={path}: responses to another request are there (")
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
    assert other_request(path, REQUEST) is None


def test_responses_of_unknown_origin_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text("mine\n")
    with pytest.raises(ValueError, match="without a record of what was asked"):
        opened(path)
    assert path.read_text() == "mine\n"


def test_afresh_drops_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    begun(path, 0).finish()
    file = opened(path, afresh=True, request={**REQUEST, "n": 3})
    assert (file.finished, file.done) == (False, frozenset())
    assert json.loads(request_path(path).read_text())["n"] == 3
    assert not path.exists()


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "responses.jsonl"
    file = begun(path, 0)
    whole = part_path(path).read_bytes()
    pwrite = response_file.os.pwrite
    monkeypatch.setattr(response_file.os, "pwrite", lambda where, data, at: pwrite(where, data[:9], at))
    with pytest.raises(OSError, match=r"9 of \d+ bytes of row 1: is the disk full"):
        file.write(1, {})
    assert part_path(path).read_bytes() == whole

"""A file or folder is the old one or the new one, whatever happens in between; nothing is left beside it."""

import os
from pathlib import Path

import pytest

from fusedrl.checkpoint.atomic import new_folder, write_file


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("data", ["text", b"bytes"])
def test_a_file_is_written_and_replaced(data: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("an older and longer text")
    write_file(path, data)
    assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert names(tmp_path) == {"file"}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*arguments: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "replace")), fail)
    with pytest.raises(OSError, match=f"no space: '{path}'"):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


@pytest.mark.parametrize("existed", [False, True])
def test_a_folder_appears_whole_when_it_is_done(existed: bool, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"
    if existed:
        path.mkdir(parents=True)
        (path / "old").write_text("old")
    with new_folder(path) as filling:
        (filling / "sub").mkdir()
        (filling / "sub" / "new").write_text("new")
        assert (names(path) if path.exists() else set()) == ({"old"} if existed else set())
    assert [p.read_text() for p in path.rglob("*") if p.is_file()] == ["new"]
    assert names(path.parent) == {"folder"}


def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("old")

    def fill() -> None:
        with new_folder(path) as filling:
            (filling / "new").write_text("new")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fill()
    assert names(path) == {"old"}
    assert names(tmp_path) == {"folder"}

"""Of compiled functions' files only the old ones go, of this package's modules, of other digests."""

import os
import time
from pathlib import Path

import pytest

from schedules.search.kept_files import DAYS, remove_stale

STAY = (
    "kernel.f-3.py311-aaaa.nbi",
    "kernel.f-3.py311-aaaa.1.nbc",
    "other.f-3.py311-bbbb.nbi",
    "kernel.cpython-311.pyc",
)
GO = (
    "kernel.f-3.py311-bbbb.nbi",
    "kernel.f-3.py311-bbbb.1.nbc",
    "kernel.f-3.py311.1.nbc",
    "moves.g-9.py312-bbbb.2.nbc",
)


def fill(folder: Path, *, days: float) -> None:
    written = time.time() - days * 24 * 3600
    for name in (*STAY, *GO):
        (folder / name).touch()
        os.utime(folder / name, (written, written))


def left(folder: Path) -> set[str]:
    remove_stale(folder, stems={"kernel", "moves"}, digest="aaaa")
    return {path.name for path in folder.iterdir()}


def test_old_files_of_other_digests_go_and_no_other(tmp_path: Path) -> None:
    fill(tmp_path, days=DAYS + 1)
    assert left(tmp_path) == set(STAY)


def test_files_stay_for_some_days(tmp_path: Path) -> None:
    fill(tmp_path, days=DAYS - 1)
    assert left(tmp_path) == {*STAY, *GO}


def test_a_file_that_another_process_removed_first_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, days=DAYS + 1)
    unlink = Path.unlink

    def twice(path: Path) -> None:
        unlink(path)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", twice)
    assert left(tmp_path) == set(STAY)

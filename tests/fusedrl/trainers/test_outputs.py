from pathlib import Path

import pytest

from fusedrl.trainers import outputs
from fusedrl.trainers.outputs import Outputs
from tests.fusedrl.trainers.test_judging import judged


@pytest.fixture(autouse=True)
def first_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "leads", lambda: True)


def kept(folder: Path, *steps: int, keep: int | None) -> list[str]:
    made = Outputs(folder, "")
    for step in steps:
        made.save_validation(step, judged(), decode=str, keep=keep)
    return sorted(path.name for path in (folder / "validation").iterdir())


def test_the_last_validations_stay_each_as_lines_and_page(tmp_path: Path) -> None:
    pages = [f"step_{step}.{kind}" for step in (20, 30) for kind in ("html", "jsonl")]
    assert kept(tmp_path / "two", 0, 5, 10, 20, 30, keep=2) == pages
    assert len(kept(tmp_path / "all", 0, 5, 10, 20, 30, keep=None)) == 10


def test_those_of_a_course_that_was_left_go(tmp_path: Path) -> None:
    assert kept(tmp_path, 5, 10, 15, 10, keep=3) == [f"step_{n}.{kind}" for n in (10, 5) for kind in ("html", "jsonl")]


def test_other_ranks_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "leads", lambda: False)
    Outputs(tmp_path, "").save_validation(1, judged(), decode=str, keep=1)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_a_run_can_do_without_is_told_and_does_not_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "validation").write_text("a file where the folder should be")
    Outputs(tmp_path, "").save_validation(3, judged(), decode=str, keep=1)
    assert capsys.readouterr().err.startswith("warning: validation/step_3 could not be written (")

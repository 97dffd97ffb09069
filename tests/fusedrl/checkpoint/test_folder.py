"""The pointer decides; what another course of training left is never resumed from, and never lost."""

from pathlib import Path

import pytest

from fusedrl.checkpoint.folder import (
    POINTER,
    candidates,
    latest_step,
    point_to,
    remove_leftovers,
    remove_old,
    saved_steps,
    set_aside,
    state_folder,
    step_folder,
)
from fusedrl.checkpoint.manifest import MANIFEST


def saved(checkpoints: Path, *steps: int, latest: int | None = None) -> Path:
    for step in steps:
        state_folder(checkpoints, step).mkdir(parents=True)
        (state_folder(checkpoints, step) / MANIFEST).write_text("{}")
        (step_folder(checkpoints, step) / "actor").mkdir()
    if latest is not None:
        point_to(checkpoints, latest)
    return checkpoints


def test_the_pointers_step_comes_first_then_those_before_it(tmp_path: Path) -> None:
    assert candidates(tmp_path / "none") == []
    checkpoints = saved(tmp_path / "checkpoints", 2, 4, 10, latest=4)
    assert saved_steps(checkpoints) == [2, 4, 10]
    assert latest_step(checkpoints) == 4
    assert candidates(checkpoints) == [4, 2]
    assert (checkpoints / POINTER).read_text() == "4\n"


def test_a_state_counts_from_when_the_pointer_names_one(tmp_path: Path) -> None:
    assert candidates(saved(tmp_path, 2, 4)) == []


@pytest.mark.parametrize("text", ["", "x", "-3", "\u00b2"])
def test_an_unreadable_pointer_stands_for_the_last_state(text: str, tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 2, 10)
    (checkpoints / POINTER).write_text(text)
    assert candidates(checkpoints) == [10, 2]


def test_old_steps_go_with_their_exports_and_exports_alone_stay(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 2, 4, 10)
    (step_folder(checkpoints, 1) / "actor").mkdir(parents=True)
    remove_old(checkpoints, keep=2)
    assert sorted(path.name for path in checkpoints.iterdir()) == ["global_step_1", "global_step_10", "global_step_4"]


def test_what_a_kill_left_beside_states_goes(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 2)
    for name in (".global_step_1.old", "global_step_2/.state.part", "global_step_2/.state.7.old"):
        (checkpoints / name / "inner").mkdir(parents=True)
    remove_leftovers(checkpoints)
    assert [path.name for path in checkpoints.iterdir()] == ["global_step_2"]
    assert sorted(path.name for path in step_folder(checkpoints, 2).iterdir()) == ["actor", "state"]


def test_a_fresh_run_sets_all_states_aside_and_leaves_exports(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path / "checkpoints", 2, 4, latest=4)
    assert set_aside(checkpoints, after=0, target=tmp_path / "previous/1") == [2, 4]
    assert candidates(checkpoints) == []
    assert not (checkpoints / POINTER).exists()
    assert saved_steps(tmp_path / "previous/1/checkpoints") == [2, 4]
    assert (step_folder(checkpoints, 4) / "actor").is_dir()


def test_going_on_from_an_earlier_step_leaves_the_later_course(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path / "checkpoints", 2, 4, 6, latest=6)
    assert set_aside(checkpoints, after=4, target=tmp_path / "previous/1") == [6]
    assert candidates(checkpoints) == [4, 2]
    assert saved_steps(tmp_path / "previous/1/checkpoints") == [6]
    assert set_aside(checkpoints, after=4, target=tmp_path / "previous/2") == []
    assert not (tmp_path / "previous/2").exists()

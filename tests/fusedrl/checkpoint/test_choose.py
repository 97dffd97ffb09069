"""All ranks take the same state; a damaged one is told and the one before is taken."""

from pathlib import Path
from typing import Any

import pytest

from fusedrl.checkpoint.choose import state_of
from fusedrl.checkpoint.folder import state_folder
from fusedrl.checkpoint.manifest import MANIFEST
from tests.distributed.pool import RankPool

JOBS = "tests.fusedrl.checkpoint.saver_jobs"


def saved(ranks: RankPool, folder: Path, *steps: int) -> None:
    ranks.run(f"{JOBS}:several", world=2, folder=str(folder), steps=list(steps), keep=None, asynchronous=True)


def harm(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_nothing_saved_is_no_state(ranks: RankPool, tmp_path: Path) -> None:
    assert ranks.run(f"{JOBS}:found", world=2, folder=str(tmp_path)) == [{"step": None, "told": []}] * 2


def test_a_damaged_state_is_told_and_the_one_before_is_taken(ranks: RankPool, tmp_path: Path) -> None:
    saved(ranks, tmp_path, 1, 2, 3)
    harm(state_folder(tmp_path, 3) / "rank_00001.safetensors")  # rank 1 looks at it
    (state_folder(tmp_path, 2) / MANIFEST).write_text("{")
    first, second = ranks.run(f"{JOBS}:found", world=2, folder=str(tmp_path))
    assert first == second
    assert first["step"] == 1
    assert [line.partition(str(tmp_path))[0] for line in first["told"]] == ["DAMAGED CHECKPOINT: "] * 2
    assert "global_step_3/state/rank_00001.safetensors: its content does not match" in first["told"][0]
    assert "global_step_2/state/manifest.json: missing or cut short" in first["told"][1]


def test_a_run_without_a_good_state_does_not_start_afresh_by_itself(ranks: RankPool, tmp_path: Path) -> None:
    saved(ranks, tmp_path, 1)
    harm(state_folder(tmp_path, 1) / "rank_00000.safetensors")
    for result in ranks.run(f"{JOBS}:found", world=2, folder=str(tmp_path)):
        assert "rank_00000.safetensors: its content does not match" in result["error"]


def test_a_named_state_is_taken_or_its_damage_is_the_error(ranks: RankPool, tmp_path: Path) -> None:
    saved(ranks, tmp_path, 1, 2)
    named: dict[str, Any] = {"folder": str(tmp_path), "path": str(tmp_path / "global_step_1")}
    assert ranks.run(f"{JOBS}:found", world=2, **named)[0]["step"] == 1
    (state_folder(tmp_path, 1) / "rank_00000.safetensors").unlink()
    assert "rank_00000.safetensors: missing" in ranks.run(f"{JOBS}:found", world=2, **named)[1]["error"]


@pytest.mark.parametrize("given", ["a/global_step_1", "a/global_step_1/state"])
def test_a_step_or_its_state_may_be_named(given: str) -> None:
    assert state_of(Path(given)) == Path("a/global_step_1/state")

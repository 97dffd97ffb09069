"""A state is whole or absent, counts on all ranks alike, and a failed save leaves the one before."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fusedrl.checkpoint.folder import candidates, saved_steps, state_folder
from fusedrl.checkpoint.manifest import read_manifest
from tests.distributed.pool import RankPool

JOBS = "tests.fusedrl.checkpoint.saver_jobs"


@pytest.mark.parametrize("asynchronous", [True, False])
def test_the_last_states_stay_and_every_save_is_told(ranks: RankPool, tmp_path: Path, asynchronous: bool) -> None:
    options: dict[str, Any] = {"steps": [1, 3, 9, 10], "keep": 2, "asynchronous": asynchronous}
    told, _ = ranks.run(f"{JOBS}:several", world=2, folder=str(tmp_path), **options)
    assert saved_steps(tmp_path) == [9, 10]
    assert candidates(tmp_path) == [10, 9]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["global_step_10", "global_step_9"]
    manifest = read_manifest(state_folder(tmp_path, 10))
    assert (manifest.step, manifest.world, manifest.values) == (10, 2, {"step": 10})
    assert sorted(manifest.files) == ["rank_00000.safetensors", "rank_00001.safetensors"]
    assert [line.split(" saved")[0] for line in told] == [f"step {step}" for step in (1, 3, 9, 10)]


def test_a_state_counts_once_all_ranks_have_written(ranks: RankPool, tmp_path: Path) -> None:
    for result in ranks.run(f"{JOBS}:while_written", world=2, folder=str(tmp_path)):
        assert result == {"before": [], "after": [1]}


def test_a_file_system_that_hangs_is_one_error_on_all_ranks(ranks: RankPool, tmp_path: Path) -> None:
    first, second = ranks.run(f"{JOBS}:hanging", world=2, folder=str(tmp_path))
    assert first == second
    assert first.startswith("step 1 could not be saved: rank 1: ")
    assert "rank_00001.safetensors was not written within 0.2 s" in first


@pytest.mark.parametrize(("rank", "asynchronous"), [(0, False), (1, True)])
def test_a_full_disk_is_one_error_on_all_ranks_and_leaves_the_state_before(
    ranks: RankPool, tmp_path: Path, rank: int, asynchronous: bool
) -> None:
    options: dict[str, Any] = {"folder": str(tmp_path), "rank": rank, "asynchronous": asynchronous}
    first, second = ranks.run(f"{JOBS}:disk_full", world=2, **options)
    assert first == second
    assert first.startswith(f"step 2 could not be saved: rank {rank}: ")
    assert first.endswith("No space left on device; the state of step 1 stays the last good one")
    assert candidates(tmp_path) == [1]
    assert ranks.run(f"{JOBS}:found", world=2, folder=str(tmp_path))[1]["step"] == 1


def test_a_kill_at_any_place_leaves_the_last_good_state(tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"{JOBS}", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    steps = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert steps == sorted(steps)  # once step 2 counts it stays
    assert steps.count(1) > 8
    assert steps.count(2) > 4
    assert done.stdout.splitlines()[-1] == "2 1"  # not killed: the older one has gone

"""Every entry of every parameter is somebody's share, whichever optimizer keeps it, and Adam's steps are counted."""

from pathlib import Path
from typing import Any

import pytest

from tests.distributed.pool import RankPool
from tests.distributed.trainer_jobs import folder_of

JOBS = "tests.fusedrl.checkpoint.snapshot_jobs"
ALL = ["exp_avg", "exp_avg_sq", "param"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("distributed", [False, True])
def test_shares_cover_all_entries_and_moments_appear_with_the_first_step(
    ranks: RankPool, tmp_path: Path, dtype: str, distributed: bool
) -> None:
    keys: dict[str, Any] = {"dtype": dtype, "use_distributed_optimizer": distributed}
    results = ranks.run(f"{JOBS}:shares", world=2, folder=folder_of(tmp_path), keys=keys)
    for name, size in results[0]["sizes"].items():
        ranges = [result["ranges"][name] for result in results if name in result["ranges"]]
        if distributed:
            assert sorted(ranges)[0][0] == 0
            assert sorted(ranges)[-1][1] == size
            assert sum(stop - start for start, stop in ranges) == size
        else:
            assert ranges == [(0, size)] * 2
    for result in results:
        assert result["before"] == {"steps": None, "kinds": ["param"]}
        assert result["unbegun"] is None
        assert result["after"] == {"steps": 3, "kinds": ALL}
        assert result["groups"]["steps"] == 3
        assert set(result["groups"]["in_groups"]) == {3}

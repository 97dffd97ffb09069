"""Generators go on where they stood when a state was written: torch's own and the tensor-parallel tracker's."""

from pathlib import Path

from tests.distributed.pool import RankPool

JOBS = "tests.fusedrl.checkpoint.snapshot_jobs"


def test_random_generators_go_on_where_they_stood(ranks: RankPool, tmp_path: Path) -> None:
    for results in ranks.run(f"{JOBS}:generators", world=2, folder=str(tmp_path)):
        assert results == [True] * 4

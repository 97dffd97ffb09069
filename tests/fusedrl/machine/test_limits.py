import resource
from pathlib import Path

import pytest

from fusedrl.machine.limits import (
    GB,
    available_memory,
    cores,
    files_finding,
    free_bytes,
    limit_findings,
    memlock_finding,
    memory_finding,
    shm_finding,
    threads_finding,
)
from fusedrl.machine.place import Place

EIGHT = Place(world=8, local_world=8, source="torchrun")


def test_this_machine_has_memory_and_cores_and_a_line_for_each_limit(tmp_path: Path) -> None:
    free = available_memory()
    assert free is not None
    assert free > 0
    assert cores() >= 1
    assert free_bytes(tmp_path / "nothing") is None
    topics = [each.topic for each in limit_findings({}, EIGHT)]
    assert topics == ["memory", "/dev/shm", "open files", "locked memory", "cores"]


@pytest.mark.parametrize(("free", "level"), [(None, "ok"), (16 * GB, "ok"), (15 * GB, "warn")])
def test_each_rank_of_the_node_takes_memory(free: int | None, level: str) -> None:
    assert memory_finding(free, EIGHT).level == level


@pytest.mark.parametrize(("free", "level"), [(None, "warn"), (64 << 20, "warn"), (GB, "ok")])
def test_the_shared_memory_of_a_container_by_default_is_too_little(free: int | None, level: str) -> None:
    found = shm_finding(free)
    assert found.level == level
    assert bool(found.change) == (level == "warn")


@pytest.mark.parametrize(("limit", "level"), [(1024, "warn"), (4096, "ok"), (resource.RLIM_INFINITY, "ok")])
def test_a_thousand_open_files_are_few(limit: int, level: str) -> None:
    assert files_finding(limit).level == level


@pytest.mark.parametrize(
    ("limit", "infiniband", "level"),
    [(1 << 23, False, "ok"), (1 << 23, True, "warn"), (resource.RLIM_INFINITY, True, "ok")],
)
def test_infiniband_needs_memory_to_be_locked(limit: int, infiniband: bool, level: str) -> None:
    assert memlock_finding(limit, infiniband=infiniband).level == level


@pytest.mark.parametrize(
    ("threads", "place", "cores", "change"),
    [
        (None, Place(), 2, ""),
        ("2", EIGHT, 16, ""),
        ("3", EIGHT, 16, "export OMP_NUM_THREADS=2"),
        (None, EIGHT, 16, "export OMP_NUM_THREADS=2"),
        ("many", EIGHT, 16, "export OMP_NUM_THREADS=2"),
        ("1", EIGHT, 4, "ask for a core a rank (sbatch --cpus-per-task): else times and bubbles measure the sharing"),
    ],
)
def test_ranks_share_the_cores(threads: str | None, place: Place, cores: int, change: str) -> None:
    found = threads_finding(threads, place, cores=cores)
    assert found.change == change
    assert found.level == ("warn" if change else "ok")

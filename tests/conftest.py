"""Shared by all tests: a pool of gloo ranks, and which tests stay together where several processes run them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributed.pool import RankPool


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankPool]:
    """Gloo rank processes, started on first use and reused by every distributed test of this process."""
    pool = RankPool()
    yield pool
    pool.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For `-n N --dist loadgroup`: a file's tests in one process, so that they share its fixtures; those of schedules/
    all in one, so that no two compile the same kernels."""
    for item in items:
        place = item.path.relative_to(Path(__file__).parent)
        name = place.parts[0] if place.parts[0] == "schedules" else str(place)
        item.add_marker(pytest.mark.xdist_group(name))

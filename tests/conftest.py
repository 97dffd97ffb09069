"""Shared fixtures: one pool of gloo ranks for the whole session."""

from collections.abc import Iterator

import pytest

from tests.distributed.pool import RankPool


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankPool]:
    """Gloo rank processes, started on first use and reused by every distributed test."""
    pool = RankPool()
    yield pool
    pool.close()

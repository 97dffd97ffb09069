"""Checkpoint folders of the rollout tests, written once a session."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.fusedrl.rollout import tiny


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Folder of a tiny checkpoint by family."""

    @cache
    def folder(family: str) -> str:
        return tiny.save(tmp_path_factory.mktemp(family), family=family)

    return folder

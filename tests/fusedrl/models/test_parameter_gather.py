"""Parameters that travel while other work goes on are the same bits, and nobody sees old ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fusedrl.models.training import OptimizerSettings
from tests.distributed.pool import RankPool

JOBS = "tests.fusedrl.models.gather_jobs:"
Seen = list[dict[str, Any]]


@pytest.fixture(scope="module")
def at_once(ranks: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What is seen where parameters are complete when a step ends."""
    return ranks.run(JOBS + "train_and_read", world=4, gather=False, folder=str(tmp_path_factory.mktemp("at_once")))


@pytest.mark.parametrize("late", [False, True], ids=["network", "late"])
def test_every_reader_and_the_next_pass_see_gathered_parameters(
    ranks: RankPool, at_once: Seen, tmp_path: Path, late: bool
) -> None:
    """Hand-over, forward-only pass, export, whole state, next pass: each the first to read after a step."""
    found = ranks.run(JOBS + "train_and_read", world=4, gather=True, late=late, folder=str(tmp_path))
    check_equal(at_once, found)


def test_stages_of_several_on_a_rank_see_gathered_parameters(ranks: RankPool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"world": 4, "shape": "v", "folder": str(tmp_path)}
    check_equal(*(ranks.run(JOBS + "train_and_read", gather=late, late=late, **options) for late in (False, True)))


def test_loaded_weights_are_not_overwritten_by_parameters_under_way(ranks: RankPool, tmp_path: Path) -> None:
    for rank in ranks.run(JOBS + "load_while_under_way", world=4, folder=str(tmp_path)):
        assert rank
        assert all(rank)


@pytest.mark.parametrize("options", [{}, {"use_distributed_optimizer": True}, {"overlap_grad_reduce": True}])
def test_settings_without_what_a_gather_needs_are_refused(options: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="overlap_param_gather needs use_distributed_optimizer="):
        OptimizerSettings(overlap_param_gather=True, **options)


def check_equal(at_once: Seen, gathered: Seen) -> None:
    read = {key.partition("/")[0] for rank in at_once for key in rank}
    assert read == {"0", "1", "2", "3", "end", "under way"}  # every reader saw something
    for one, other in zip(at_once, gathered, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            if key.startswith("under way"):
                assert (value, other[key]) == ([False, False], [True, True]), key
            else:
                assert np.array_equal(value, other[key]), key

"""Models that lie on different ranks do what they do on the same ones."""

from pathlib import Path
from typing import Any

import torch

from tests.distributed import trainer_jobs
from tests.distributed.pool import RankPool

JOBS = "tests.fusedrl.trainers.layout_jobs"
BESIDE, ACROSS, OVERLAPPING = ("0-1", "2-3"), ("0,2", "1,3"), ("0-1", "1-2")


def test_training_on_other_ranks_is_bit_equal_to_training_on_the_same_ones(ranks: RankPool, tmp_path: Path) -> None:
    """Side by side, in turn (two replicas each), and with one rank in common while another has nothing; the inference
    before, the optimizers' steps and their metrics, which every rank knows, too."""
    folder, nowhere = trainer_jobs.folder_of(tmp_path), (None, None)
    same = ranks.run(f"{JOBS}:trained", world=2, folder=folder, runs=[(2, nowhere, "fused"), (1, nowhere, "serial")])
    runs = [(2, BESIDE, "fused"), (1, ACROSS, "fused"), (2, OVERLAPPING, "fused"), (2, BESIDE, "serial")]
    apart = ranks.run(f"{JOBS}:trained", world=4, folder=folder, runs=runs)
    pipelines, replicas = ([of_rank[run] for of_rank in same] for run in range(2))
    beside, across, overlapping, serial = ([of_rank[run] for of_rank in apart] for run in range(4))
    for found, expected in ((beside, pipelines), (overlapping, pipelines), (serial, pipelines), (across, replicas)):
        assert [each["metrics"] for each in found] == [expected[0]["metrics"]] * 4
    for column in range(2):
        both = pipelines[column]["state"]
        assert equal(both, beside[column]["state"] + beside[2 + column]["state"])
        assert equal(both, serial[column]["state"] + serial[2 + column]["state"])
        assert equal(replicas[column]["state"], across[2 * column]["state"] + across[2 * column + 1]["state"])
    first, middle, last, nothing = (each["state"] for each in overlapping)
    count = len(first)
    assert equal(pipelines[0]["state"], first + middle[-(len(pipelines[0]["state"]) - count) :])
    assert equal(pipelines[1]["state"], middle[: len(pipelines[1]["state"]) - len(last)] + last)
    assert nothing == []


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    assert len(one) > 0
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_generation_on_some_ranks_gives_all_ranks_the_tokens_of_generation_on_all(
    ranks: RankPool, tmp_path: Path
) -> None:
    """The actor lies on others, on a part of them, or nowhere near; the engine is a replica or a pipeline."""
    folder = trainer_jobs.folder_of(tmp_path)
    runs: list[dict[str, Any]] = [
        {"tp": 1, "pp": 2, "ranks": ("0-1", "0-1"), "rollout_tp": 1, "rollout_ranks": "2-3"},
        {"tp": 1, "pp": 2, "ranks": ("1-2", "0-1"), "rollout_tp": 1, "rollout_pp": 2, "rollout_ranks": "2-3"},
    ]
    alone = ranks.run(f"{JOBS}:generated", world=1, folder=folder, runs=[{"tp": 1, "pp": 1, "rollout_tp": 1}])
    found = ranks.run(f"{JOBS}:generated", world=4, folder=folder, runs=runs)
    assert found == [alone[0] * 2] * 4

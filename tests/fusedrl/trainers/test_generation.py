from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.distributed import trainer_jobs as jobs
from tests.distributed.pool import RankPool


def greedy_by_hugging_face(folder: str) -> list[list[int]]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    found = []
    for i in range(8):
        tokens = [3 + i, 4, 5 + i][: 1 + i % 3]
        for _ in range(jobs.WIDTH):
            with torch.no_grad():
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
        found.append(tokens[1 + i % 3 :])
    return found


@pytest.mark.parametrize(
    ("world", "tp", "pp", "rollout_tp", "rollout_pp", "placement"),
    [
        (2, 1, 2, 1, 1, "v"),
        (4, 1, 2, 1, 2, "line"),
        (4, 2, 2, 2, 1, "line"),
        (4, 2, 1, 1, 1, "line"),
        (4, 2, 2, 2, 2, "v"),
    ],
)
def test_generation_after_hand_over_equals_hugging_face(
    ranks: RankPool, tmp_path: Path, world: int, tp: int, pp: int, rollout_tp: int, rollout_pp: int, placement: str
) -> None:
    folder = jobs.folder_of(tmp_path)
    layout = {"tp": tp, "pp": pp, "rollout_tp": rollout_tp, "rollout_pp": rollout_pp, "placement": placement}
    results = ranks.run("tests.distributed.trainer_jobs:generate", world=world, folder=folder, **layout)
    expected = [tokens for tokens in greedy_by_hugging_face(folder) for _ in range(2)]
    assert all(result == expected for result in results)


def test_generation_takes_over_from_ranks_that_share_rows(ranks: RankPool, tmp_path: Path) -> None:
    folder = jobs.folder_of(tmp_path)
    layout = {"tp": 1, "pp": 1, "cp": 2, "rollout_tp": 1}
    results = ranks.run("tests.distributed.trainer_jobs:generate", world=2, folder=folder, **layout)
    expected = [tokens for tokens in greedy_by_hugging_face(folder) for _ in range(2)]
    assert all(result == expected for result in results)

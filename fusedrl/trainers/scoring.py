"""Scores of responses: the reward function's, and a reward model's on top where there is one.

The function runs in worker processes of rank 0 alone; every rank joins the broadcast of the scores. A call that hangs,
throws or gives no number costs its own sample: it gets the configured score, and is counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fusedrl.parallel.comm import broadcast_object
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardResult, RewardSample
from fusedrl.rewards.team import RunnerTeam
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.prompting import PromptRow


@dataclass(frozen=True, eq=False)
class Scores:
    """score_B fp32 [B]; acc_B: the function's "acc" where it tells one apart from the score; metrics of its calls."""

    score_B: Tensor
    acc_B: Tensor
    metrics: dict[str, float]


def reward_samples(
    rows: Sequence[PromptRow], completions: Sequence[Completion], *, decode: Callable[[Sequence[int]], str]
) -> list[RewardSample]:
    """What the reward function is asked: completions of each row are neighbours, in the rows' order."""
    each = len(completions) // max(len(rows), 1)
    return [
        reward_sample(rows[index // each], sample_id=completion.sample_id, text=decode(completion.tokens))
        for index, completion in enumerate(completions)
    ]


def reward_sample(row: PromptRow, *, sample_id: int, text: str) -> RewardSample:
    """What the reward function is asked about one response."""
    return RewardSample(
        sample_id=str(sample_id),
        data_source=row.data_source,
        solution_str=text,
        ground_truth=row.ground_truth,
        extra_info=dict(row.extra_info),
    )


def score(runner: RewardRunner | RunnerTeam | None, samples: Sequence[RewardSample]) -> Scores:
    """The reward function's scores, on every rank; zeros without a function. A collective of all ranks.

    `runner` lives on rank 0; what other ranks pass does not count.
    """
    results = [RewardResult(sample.sample_id, 0.0) for sample in samples] if runner is None else runner.score(samples)
    mine = {
        "score": [result.score for result in results],
        "acc": [float(result.extra.get("acc", result.score)) for result in results],
        "failed": sum(not result.ok for result in results),
    }
    found = broadcast_object(mine)
    score_B, acc_B = (torch.tensor(found[name], dtype=torch.float32) for name in ("score", "acc"))
    return Scores(score_B, acc_B, {"reward/failed_calls": float(found["failed"])})

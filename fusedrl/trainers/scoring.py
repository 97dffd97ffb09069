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
from fusedrl.rewards.sample import RewardSample
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.prompting import PromptRow


@dataclass(frozen=True, eq=False)
class Scores:
    """score_B fp32 [B], and metrics of the function's calls."""

    score_B: Tensor
    metrics: dict[str, float]


def reward_samples(
    rows: Sequence[PromptRow], completions: Sequence[Completion], *, decode: Callable[[Sequence[int]], str]
) -> list[RewardSample]:
    """What the reward function is asked: completions of each row are neighbours, in the rows' order."""
    each = len(completions) // max(len(rows), 1)
    return [
        RewardSample(
            sample_id=str(completion.sample_id),
            data_source=rows[index // each].data_source,
            solution_str=decode(completion.tokens),
            ground_truth=rows[index // each].ground_truth,
            extra_info=dict(rows[index // each].extra_info),
        )
        for index, completion in enumerate(completions)
    ]


def score(runner: RewardRunner | None, samples: Sequence[RewardSample]) -> Scores:
    """The reward function's scores, on every rank; zeros without a function. A collective of all ranks.

    `runner` lives on rank 0; what other ranks pass does not count.
    """
    answer = {"scores": [0.0] * len(samples), "failed": 0}
    if runner is not None:
        results = runner.score(samples)
        answer = {"scores": [r.score for r in results], "failed": sum(not r.ok for r in results)}
    answer = broadcast_object(answer)
    score_B = torch.tensor(answer["scores"], dtype=torch.float32)
    return Scores(score_B, {"reward/failed_calls": float(answer["failed"])})

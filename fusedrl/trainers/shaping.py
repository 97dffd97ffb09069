"""What algorithm.reward_shaping does to the scores of a step before they become rewards.

    score -> - penalty of long responses - penalty of a missing end -> limits -> mean 0, standard deviation 1

Shapes: B samples.
"""

import torch
from torch import Tensor

from fusedrl.config.schema import RewardShapingConfig
from fusedrl.rl.shaping import clip_scores, missing_end_penalty, normalize_scores, overlong_penalty
from fusedrl.trainers.samples import Samples


def shaped(score_B: Tensor, samples: Samples, config: RewardShapingConfig) -> Tensor:
    """The scores as they are learnt from. Every rank has the whole batch."""
    buffer = config.overlong_buffer
    if buffer.len is not None:
        lengths_B, limit = samples.response_lengths_B, samples.width
        score_B = score_B + overlong_penalty(
            lengths_B, max_length=limit, buffer=buffer.len, factor=buffer.penalty_factor
        )
    if config.missing_eos_penalty:
        ended_B = torch.ones_like(score_B, dtype=torch.bool) if samples.ended_B is None else samples.ended_B
        score_B = score_B + missing_end_penalty(ended_B, penalty=config.missing_eos_penalty)
    if config.clip_range:
        low, high = config.clip_range
        score_B = clip_scores(score_B, low=low, high=high)
    return normalize_scores(score_B) if config.normalize else score_B

"""Rewards per token from a score per sample. The score sits on the last valid token, wherever padding begins.

    reward_t = [t is the last valid token] * score - coef * KL_t

What may be done to the scores before: a penalty of long responses and of those without an end, limits, and a mean of 0
with a standard deviation of 1 over the batch.

A sample without a valid token has no place for its score: all its rewards are 0. A score of 0.0 is a score.
"""

import torch
from torch import Tensor

from fusedrl.rl.groups import compare
from fusedrl.rl.kl import estimate
from fusedrl.rl.masked import last_valid, working
from fusedrl.rl.normalize import whiten


@torch.no_grad()
def place_scores(score_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Rewards [B, T]: each score on its sample's last valid token, 0 elsewhere."""
    if score_B.shape != mask_BT.shape[:1]:
        raise ValueError(f"{tuple(score_B.shape)} scores for {mask_BT.shape[0]} samples: give one score a sample")
    score_B = working(score_B)
    positions_T = torch.arange(mask_BT.shape[1], device=mask_BT.device)
    on_last_BT = positions_T == last_valid(mask_BT)[:, None]
    return torch.where(on_last_BT, score_B[:, None], torch.zeros_like(score_B)[:, None])


@torch.no_grad()
def rewards_with_kl(
    score_B: Tensor,
    logp_BT: Tensor,
    ref_logp_BT: Tensor,
    mask_BT: Tensor,
    *,
    coef: float,
    kind: str = "k1",
    clip: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(rewards [B, T], KL per token [B, T]); the KL is its own tensor, unscaled, for the log and the controller.

    `clip`: the largest absolute KL of a token, whatever its kind.
    """
    kl_BT = estimate(logp_BT, ref_logp_BT, mask_BT, kind=kind)
    kl_BT = kl_BT if clip is None else kl_BT.clamp(-clip, clip)
    return place_scores(score_B, mask_BT) - coef * kl_BT, kl_BT


@torch.no_grad()
def overlong_penalty(lengths_B: Tensor, *, max_length: int, buffer: int, factor: float = 1.0) -> Tensor:
    """DAPO's soft punishment (Yu et al. 2025, eq. 13), to be added to the score: 0 up to `max_length - buffer`
    tokens, then linear down to `-factor` at `max_length`, and `-factor` beyond."""
    if not 0 < buffer <= max_length:
        raise ValueError(f"overlong_buffer.len is {buffer}: make it lie in 1..{max_length} (data.max_response_length)")
    excess_B = lengths_B.to(torch.float32) - (max_length - buffer)
    return -factor * (excess_B / buffer).clamp(0.0, 1.0)


@torch.no_grad()
def missing_end_penalty(ended_B: Tensor, *, penalty: float) -> Tensor:
    """TRL's, to be added to the score: `-penalty` for a response that was cut before its end token, else 0."""
    return torch.where(ended_B, 0.0, -penalty)


@torch.no_grad()
def clip_scores(score_B: Tensor, *, low: float, high: float) -> Tensor:
    """Scores within [low, high]."""
    if not low < high:
        raise ValueError(f"reward_shaping.clip_range is [{low}, {high}]: give a lower limit below the upper one")
    return working(score_B).clamp(low, high)


@torch.no_grad()
def normalize_scores(score_B: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1 over the batch (unbiased); a batch of equal scores becomes zeros."""
    return whiten(score_B, torch.ones_like(score_B, dtype=torch.bool))


@torch.no_grad()
def informative(scores_B: Tensor, groups_B: Tensor) -> Tensor:
    """DAPO's dynamic sampling (Yu et al. 2025, section 3.2): True for samples of groups whose scores are not all equal.

    The others have advantage 0 under GRPO and its kin and would only thin out the batch.
    """
    return compare(scores_B, groups_B, torch.ones_like(scores_B, dtype=torch.bool)).std_biased_B > 0

"""Rewards per token from a score per sample. The score sits on the last valid token, wherever padding begins.

    reward_t = [t is the last valid token] * score - coef * KL_t

A sample without a valid token has no place for its score: all its rewards are 0. A score of 0.0 is a score.
"""

import torch
from torch import Tensor

from fusedrl.rl.groups import compare
from fusedrl.rl.kl import estimate
from fusedrl.rl.masked import last_valid, working


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
    score_B: Tensor, logp_BT: Tensor, ref_logp_BT: Tensor, mask_BT: Tensor, *, coef: float, kind: str = "k1"
) -> tuple[Tensor, Tensor]:
    """(rewards [B, T], KL per token [B, T]); the KL is its own tensor, unscaled, for the log and the controller."""
    kl_BT = estimate(logp_BT, ref_logp_BT, mask_BT, kind=kind)
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
def informative(scores_B: Tensor, groups_B: Tensor) -> Tensor:
    """DAPO's dynamic sampling (Yu et al. 2025, section 3.2): True for samples of groups whose scores are not all equal.

    The others have advantage 0 under GRPO and its kin and would only thin out the batch.
    """
    return compare(scores_B, groups_B, torch.ones_like(scores_B, dtype=torch.bool)).std_biased_B > 0

"""Advantages and returns. Shapes: B samples, T response tokens.

All take rewards per token (rewards_BT: score on the last valid token, KL penalty where it is due) and a mask (non-zero
counts), and give (advantages_BT, returns_BT), both 0 at masked tokens and free of gradient.

    gae               critic            delta_t = r_t + gamma V_t+1 - V_t, advantage = sum (gamma lam)^l delta_t+l
    reinforce_pp      no critic         discounted reward-to-go, whitened over the batch
    remax             greedy baseline   reward-to-go minus the score of the greedy response
    grpo              group             (score - mean) / std of the prompt's group
    dr_grpo           group             score - mean
    rloo              group             score - mean of the *other* samples of the group

A masked token inside a response (a tool's output) is skipped: value and sum are carried across it without decay, as if
the response consisted of its valid tokens alone. A sample without a valid token counts in no group.
"""

import torch
from torch import Tensor

from fusedrl.rl import normalize
from fusedrl.rl.groups import compare
from fusedrl.rl.masked import broadcast_to_valid, check_shapes, select

Estimate = tuple[Tensor, Tensor]
STD_FLOOR = 1e-6  # verl's GRPO epsilon, added to the standard deviation


def _check_unit(**factors: float) -> None:
    for name, value in factors.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"algorithm.{name} is {value}: make it lie in [0, 1]")


@torch.no_grad()
def gae(
    rewards_BT: Tensor,
    values_BT: Tensor,
    mask_BT: Tensor,
    *,
    gamma: float,
    lam: float,
    bootstrap_B: Tensor | None = None,
) -> Estimate:
    """Generalized advantage estimation (Schulman et al. 2016, eq. 16); returns = advantages + values.

    values_BT[b, t] is the value *before* token t is emitted. `bootstrap_B`: value after the last valid token, for
    responses cut at the length limit; default 0, the response is over.
    """
    _check_unit(gamma=gamma, lam=lam)
    check_shapes(mask_BT, rewards=rewards_BT, values=values_BT)
    rewards_TB, values_TB = select(rewards_BT, mask_BT).T, select(values_BT, mask_BT).T
    valid_TB = (mask_BT != 0).T
    next_value_B = torch.zeros_like(values_TB[:1].sum(0)) if bootstrap_B is None else bootstrap_B.to(values_TB.dtype)
    advantage_B = torch.zeros_like(next_value_B)
    advantages_TB = torch.zeros_like(values_TB + rewards_TB)
    for t in reversed(range(len(values_TB))):
        delta_B = rewards_TB[t] + gamma * next_value_B - values_TB[t]
        advantage_B = torch.where(valid_TB[t], delta_B + gamma * lam * advantage_B, advantage_B)
        next_value_B = torch.where(valid_TB[t], values_TB[t], next_value_B)
        advantages_TB[t] = advantage_B
    advantages_BT = select(advantages_TB.T, mask_BT)
    return advantages_BT, select(advantages_BT + values_TB.T, mask_BT)


@torch.no_grad()
def rewards_to_go(rewards_BT: Tensor, mask_BT: Tensor, *, gamma: float = 1.0) -> Tensor:
    """Discounted sum of this and all later rewards of the response, over valid tokens."""
    check_shapes(mask_BT, rewards=rewards_BT)
    rewards_TB, valid_TB = select(rewards_BT, mask_BT).T, (mask_BT != 0).T
    total_B = torch.zeros_like(rewards_TB[:1].sum(0))
    totals_TB = torch.zeros_like(rewards_TB)
    for t in reversed(range(len(rewards_TB))):
        total_B = torch.where(valid_TB[t], rewards_TB[t] + gamma * total_B, total_B)
        totals_TB[t] = total_B
    return select(totals_TB.T, mask_BT)


@torch.no_grad()
def reinforce_pp(
    rewards_BT: Tensor, mask_BT: Tensor, *, gamma: float = 1.0, whiten: bool = True, moments: Tensor | None = None
) -> Estimate:
    """REINFORCE++ (Hu 2025): returns whitened over the batch. `moments`: see normalize.whiten, for a sharded batch."""
    _check_unit(gamma=gamma)
    returns_BT = rewards_to_go(rewards_BT, mask_BT, gamma=gamma)
    return (normalize.whiten(returns_BT, mask_BT, moments=moments) if whiten else returns_BT), returns_BT


@torch.no_grad()
def remax(rewards_BT: Tensor, baseline_B: Tensor, mask_BT: Tensor) -> Estimate:
    """ReMax (Li et al. 2023): the baseline is the score of the greedily decoded response to the same prompt."""
    returns_BT = rewards_to_go(rewards_BT, mask_BT)
    return returns_BT - broadcast_to_valid(baseline_B, mask_BT).to(returns_BT.dtype), returns_BT


@torch.no_grad()
def grpo(
    rewards_BT: Tensor,
    groups_B: Tensor,
    mask_BT: Tensor,
    *,
    unbiased: bool = True,
    eps: float = STD_FLOOR,
) -> Estimate:
    """GRPO (Shao et al. 2024, section 4.1.2): (score - mean) / (std + eps) of the group, std unbiased by default.

    `groups_B`: any integer that samples of one prompt share, in any order. In a group whose scores are all equal the
    advantage is 0; in a group of one sample it is the score itself.
    """
    scores_B, live_B = _scores(rewards_BT, mask_BT)
    group = compare(scores_B, groups_B, live_B)
    std_B = group.std_unbiased_B if unbiased else group.std_biased_B
    advantage_B = torch.where(std_B > 0, group.deviation_B / (std_B + eps), 0.0)
    return _outcome(torch.where(group.size_B > 1, advantage_B, scores_B), rewards_BT, mask_BT)


@torch.no_grad()
def dr_grpo(rewards_BT: Tensor, groups_B: Tensor, mask_BT: Tensor) -> Estimate:
    """Dr. GRPO (Liu et al. 2025): score - group mean, no std. Alone in its group a sample keeps its score."""
    scores_B, live_B = _scores(rewards_BT, mask_BT)
    group = compare(scores_B, groups_B, live_B)
    return _outcome(torch.where(group.size_B > 1, group.deviation_B, scores_B), rewards_BT, mask_BT)


@torch.no_grad()
def rloo(rewards_BT: Tensor, groups_B: Tensor, mask_BT: Tensor, *, normalize_std: bool = False) -> Estimate:
    """RLOO (Ahmadian et al. 2024): score - mean of the group's other samples. Alone in its group it keeps its score.

    `normalize_std` divides by the others' unbiased std, where they differ at all; equal others leave the difference.
    """
    scores_B, live_B = _scores(rewards_BT, mask_BT)
    group = compare(scores_B, groups_B, live_B)
    advantage_B = scores_B - group.others_mean_B
    if normalize_std:
        std_B = group.others_std_B
        advantage_B = torch.where(std_B > 0, advantage_B / std_B.where(std_B > 0, 1.0), advantage_B)
    return _outcome(advantage_B, rewards_BT, mask_BT)


def _scores(rewards_BT: Tensor, mask_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of each sample's rewards in float64, and whether it has a valid token at all."""
    check_shapes(mask_BT, rewards=rewards_BT)
    return select(rewards_BT, mask_BT).double().sum(dim=1), (mask_BT != 0).any(dim=1)


def _outcome(advantage_B: Tensor, rewards_BT: Tensor, mask_BT: Tensor) -> Estimate:
    """One advantage for all tokens of a sample; its return is the sample's score."""
    dtype = select(rewards_BT, mask_BT).dtype
    scores_B, _ = _scores(rewards_BT, mask_BT)
    return broadcast_to_valid(advantage_B.to(dtype), mask_BT), broadcast_to_valid(scores_B.to(dtype), mask_BT)

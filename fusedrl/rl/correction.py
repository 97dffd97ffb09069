"""Importance correction between the rollout engine and the trainer, whose log-probabilities of the same token differ.

    ratio = exp(trainer_logp - rollout_logp)                    w = f(ratio), a weight on the policy loss, no gradient

    truncate   w = min(ratio, upper)                            truncated importance sampling (Yao et al. 2025)
    mask       w = ratio if lower <= ratio <= upper else 0      tokens too far off are left out
    level: token; sequence (product over the response's tokens); geometric (its geometric mean)

Tokens left out still count in the loss normalizer: a constant number of tokens keeps the gradient's scale.
"""

import torch
from torch import Tensor

from fusedrl.rl.masked import check_shapes, count, select

LOG_RATIO_CLAMP = 20.0  # as the policy ratio's
MODES = ("truncate", "mask")
LEVELS = ("token", "sequence", "geometric")


@torch.no_grad()
def rollout_weights(
    trainer_logp_BT: Tensor,
    rollout_logp_BT: Tensor,
    mask_BT: Tensor,
    *,
    mode: str = "truncate",
    level: str = "token",
    upper: float = 2.0,
    lower: float = 0.5,
) -> Tensor:
    """Weights [B, T] for losses.policy_loss(weights_BT=...); 0 at masked tokens. `lower`: mode "mask" only."""
    _check(mode=mode, level=level, upper=upper, lower=lower)
    log_ratio_BT = _level(log_ratio(trainer_logp_BT, rollout_logp_BT, mask_BT), mask_BT, level=level)
    ratio_BT = log_ratio_BT.clamp(-LOG_RATIO_CLAMP, LOG_RATIO_CLAMP).exp()
    if mode == "truncate":
        return select(ratio_BT.clamp(max=upper), mask_BT)
    return select(torch.where((ratio_BT >= lower) & (ratio_BT <= upper), ratio_BT, 0.0), mask_BT)


@torch.no_grad()
def agreement(trainer_logp_BT: Tensor, rollout_logp_BT: Tensor, mask_BT: Tensor) -> dict[str, float]:
    """verl's training/rollout_* metrics: difference of the tokens' probabilities, and their correlation.

    Ours beside them: rollout_logprobs_diff_*, the difference of the log-probabilities, in which rare tokens show.
    """
    check_shapes(mask_BT, trainer_logp=trainer_logp_BT, rollout_logp=rollout_logp_BT)
    n = max(float(count(mask_BT)), 1.0)
    ours_BT = select(select(trainer_logp_BT, mask_BT).double().exp(), mask_BT)
    theirs_BT = select(select(rollout_logp_BT, mask_BT).double().exp(), mask_BT)
    diff_BT = (ours_BT - theirs_BT).abs()
    log_diff_BT = log_ratio(trainer_logp_BT, rollout_logp_BT, mask_BT).double().abs()
    mean = diff_BT.sum() / n
    spread = select(diff_BT - mean, mask_BT).square().sum() / max(n - 1.0, 1.0)
    return {
        "training/rollout_probs_diff_mean": float(mean),
        "training/rollout_probs_diff_max": float(diff_BT.max()) if diff_BT.numel() else 0.0,
        "training/rollout_probs_diff_std": float(spread.sqrt()),
        "training/rollout_logprobs_diff_mean": float(log_diff_BT.sum() / n),
        "training/rollout_logprobs_diff_max": float(log_diff_BT.max()) if log_diff_BT.numel() else 0.0,
        "training/rollout_actor_probs_pearson_corr": _pearson(ours_BT, theirs_BT, mask_BT),
    }


def log_ratio(trainer_logp_BT: Tensor, rollout_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
    check_shapes(mask_BT, trainer_logp=trainer_logp_BT, rollout_logp=rollout_logp_BT)
    return select(trainer_logp_BT, mask_BT) - select(rollout_logp_BT, mask_BT)


def _level(log_ratio_BT: Tensor, mask_BT: Tensor, *, level: str) -> Tensor:
    if level == "token":
        return log_ratio_BT
    total_B1 = log_ratio_BT.sum(dim=1, keepdim=True)
    if level == "geometric":
        total_B1 = total_B1 / (mask_BT != 0).sum(dim=1, keepdim=True).clamp(min=1)
    return total_B1.expand(log_ratio_BT.shape)


def _pearson(a_BT: Tensor, b_BT: Tensor, mask_BT: Tensor) -> float:
    """Correlation over valid tokens; 1 for tensors without spread that are equal, else 0 (it is undefined there)."""
    n = max(float(count(mask_BT)), 1.0)
    a_BT, b_BT = select(a_BT - a_BT.sum() / n, mask_BT), select(b_BT - b_BT.sum() / n, mask_BT)
    scale = float((a_BT.square().sum() * b_BT.square().sum()).sqrt())
    if scale == 0.0:
        return 1.0 if torch.equal(a_BT, b_BT) else 0.0
    return float((a_BT * b_BT).sum()) / scale


def _check(*, mode: str, level: str, upper: float, lower: float) -> None:
    if mode not in MODES:
        raise ValueError(f"rollout correction mode is {mode!r}: take one of {', '.join(MODES)}")
    if level not in LEVELS:
        raise ValueError(f"rollout correction level is {level!r}: take one of {', '.join(LEVELS)}")
    if not 0.0 <= lower <= 1.0 <= upper:
        raise ValueError(f"rollout correction bounds are {lower}..{upper}: they must enclose 1")

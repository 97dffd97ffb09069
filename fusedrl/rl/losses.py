"""Losses of PPO and kin. Shapes: B samples, T response tokens; the mask is non-zero where a token counts.

Every function gives (loss, metrics). The loss is this micro-batch's share of the mini-batch's loss (aggregate.py: give
the global `normalizer`), and so is every metric: shares *add up* over micro-batches and data-parallel ranks to the
value of the mini-batch. Metrics are means over tokens, so they divide by `tokens`, the global count of valid tokens
(default: the normalizer in token-mean mode, else this batch's own count, which is right for an undivided batch only).

All inputs are selected by the mask first: what stands at masked places, NaN too, reaches neither loss nor gradient.
"""

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from fusedrl.rl import kl
from fusedrl.rl.aggregate import aggregate
from fusedrl.rl.masked import check_shapes, count, select

Metrics: TypeAlias = dict[str, Tensor]
Normalizer: TypeAlias = Tensor | float | None
LOG_RATIO_CLAMP = 20.0  # verl: the ratio stays finite; the reported KL is not clamped


def policy_loss(
    logp_BT: Tensor,
    old_logp_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_ratio_low: float = 0.2,
    clip_ratio_high: float = 0.2,
    clip_ratio_c: float | None = 3.0,
    loss_agg_mode: str = "token-mean",
    normalizer: Normalizer = None,
    tokens: Normalizer = None,
    weights_BT: Tensor | None = None,
) -> tuple[Tensor, Metrics]:
    """PPO's clipped surrogate (Schulman et al. 2017, eq. 7) with dual clip (Ye et al. 2020, eq. 5).

    `clip_ratio_c` bounds the loss of a negative advantage at -c A; None: no such bound. `weights_BT` multiply the loss
    per token (correction.py); they carry no gradient.
    """
    check_shapes(mask_BT, logp=logp_BT, old_logp=old_logp_BT, advantages=advantages_BT)
    log_ratio_BT = select(logp_BT, mask_BT) - select(old_logp_BT, mask_BT).detach()
    surrogate_BT, clipped = clipped_surrogate(
        log_ratio_BT,
        select(advantages_BT, mask_BT).detach(),
        clip_ratio_low=clip_ratio_low,
        clip_ratio_high=clip_ratio_high,
        clip_ratio_c=clip_ratio_c,
    )
    return _policy(
        surrogate_BT,
        mask_BT,
        {"actor/ppo_kl": -log_ratio_BT, **clipped},
        weights_BT=weights_BT,
        mode=loss_agg_mode,
        normalizer=normalizer,
        tokens=tokens,
    )


def gspo(
    logp_BT: Tensor,
    old_logp_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_ratio_low: float = 3e-4,
    clip_ratio_high: float = 4e-4,
    loss_agg_mode: str = "seq-mean-token-mean",
    normalizer: Normalizer = None,
    tokens: Normalizer = None,
    weights_BT: Tensor | None = None,
) -> tuple[Tensor, Metrics]:
    """GSPO-token (Zheng et al. 2025, eq. 14; clip ranges of its section 5.1): one ratio a sequence, the exponential of
    the mean log-ratio of its tokens, with the gradient through each token's own log-probability."""
    check_shapes(mask_BT, logp=logp_BT, old_logp=old_logp_BT, advantages=advantages_BT)
    own_BT = select(logp_BT, mask_BT)
    log_ratio_BT = own_BT - select(old_logp_BT, mask_BT)
    length_B1 = (mask_BT != 0).sum(dim=1, keepdim=True).clamp(min=1)
    sequence_B1 = (log_ratio_BT.sum(dim=1, keepdim=True) / length_B1).detach()
    surrogate_BT, clipped = clipped_surrogate(
        own_BT - own_BT.detach() + sequence_B1,
        select(advantages_BT, mask_BT).detach(),
        clip_ratio_low=clip_ratio_low,
        clip_ratio_high=clip_ratio_high,
        clip_ratio_c=None,
    )
    return _policy(
        surrogate_BT,
        mask_BT,
        {"actor/ppo_kl": -log_ratio_BT, **clipped},
        weights_BT=weights_BT,
        mode=loss_agg_mode,
        normalizer=normalizer,
        tokens=tokens,
    )


def dapo(
    logp_BT: Tensor,
    old_logp_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_ratio_low: float = 0.2,
    clip_ratio_high: float = 0.28,
    normalizer: Normalizer = None,
) -> tuple[Tensor, Metrics]:
    """DAPO (Yu et al. 2025, eq. 8): decoupled clip ranges, every token of the batch weighs the same, no dual clip.

    Its other parts: shaping.overlong_penalty and shaping.informative.
    """
    return policy_loss(
        logp_BT,
        old_logp_BT,
        advantages_BT,
        mask_BT,
        clip_ratio_low=clip_ratio_low,
        clip_ratio_high=clip_ratio_high,
        clip_ratio_c=None,
        loss_agg_mode="token-mean",
        normalizer=normalizer,
    )


def clipped_surrogate(
    log_ratio_BT: Tensor,
    advantages_BT: Tensor,
    *,
    clip_ratio_low: float,
    clip_ratio_high: float,
    clip_ratio_c: float | None,
) -> tuple[Tensor, Metrics]:
    """Loss per token and, per token, whether it was clipped (above) or bounded by the dual clip (lower)."""
    _check_clip(clip_ratio_low=clip_ratio_low, clip_ratio_high=clip_ratio_high, clip_ratio_c=clip_ratio_c)
    ratio_BT = log_ratio_BT.clamp(-LOG_RATIO_CLAMP, LOG_RATIO_CLAMP).exp()
    free_BT = -advantages_BT * ratio_BT
    clipped_BT = -advantages_BT * ratio_BT.clamp(1.0 - clip_ratio_low, 1.0 + clip_ratio_high)
    loss_BT = torch.maximum(free_BT, clipped_BT)
    lower_BT = torch.zeros_like(loss_BT, dtype=torch.bool)
    if clip_ratio_c is not None:
        bound_BT = -advantages_BT * clip_ratio_c
        lower_BT = (advantages_BT < 0) & (loss_BT > bound_BT)
        loss_BT = torch.where(lower_BT, bound_BT, loss_BT)
    return loss_BT, {"actor/pg_clipfrac": clipped_BT > free_BT, "actor/pg_clipfrac_lower": lower_BT}


def value_loss(
    values_BT: Tensor,
    old_values_BT: Tensor,
    returns_BT: Tensor,
    mask_BT: Tensor,
    *,
    cliprange_value: float | None = 0.5,
    loss_agg_mode: str = "token-mean",
    normalizer: Normalizer = None,
    tokens: Normalizer = None,
) -> tuple[Tensor, Metrics]:
    """0.5 * max((V - R)^2, (clip(V, V_old +- cliprange_value) - R)^2); None: not clipped. The factor 0.5 is verl's."""
    check_shapes(mask_BT, values=values_BT, old_values=old_values_BT, returns=returns_BT)
    values_BT, old_BT = select(values_BT, mask_BT), select(old_values_BT, mask_BT).detach()
    returns_BT = select(returns_BT, mask_BT).detach()
    free_BT = (values_BT - returns_BT).square()
    loss_BT, clipped_BT = free_BT, torch.zeros_like(free_BT, dtype=torch.bool)
    if cliprange_value is not None:
        near_BT = torch.minimum(torch.maximum(values_BT, old_BT - cliprange_value), old_BT + cliprange_value)
        far_BT = (near_BT - returns_BT).square()
        loss_BT, clipped_BT = torch.maximum(free_BT, far_BT), far_BT > free_BT
    loss = aggregate(0.5 * loss_BT, mask_BT, mode=loss_agg_mode, normalizer=normalizer)
    means = {"critic/vf_clipfrac": clipped_BT, "critic/vpred_mean": values_BT}
    tokens = _token_count(mask_BT, mode=loss_agg_mode, normalizer=normalizer, tokens=tokens)
    return loss, {"critic/vf_loss": loss.detach(), **token_shares(means, mask_BT, tokens=tokens)}


def entropy(
    entropy_BT: Tensor, mask_BT: Tensor, *, loss_agg_mode: str = "token-mean", normalizer: Normalizer = None
) -> tuple[Tensor, Metrics]:
    """The policy's entropy per token, aggregated as the policy loss is; it is *subtracted* from the loss (`total`)."""
    value = aggregate(entropy_BT, mask_BT, mode=loss_agg_mode, normalizer=normalizer)
    return value, {"actor/entropy": value.detach()}


def kl_loss(
    logp_BT: Tensor,
    ref_logp_BT: Tensor,
    mask_BT: Tensor,
    *,
    kind: str = "low_var_kl",
    loss_agg_mode: str = "token-mean",
    normalizer: Normalizer = None,
) -> tuple[Tensor, Metrics]:
    """KL to the reference as a loss (verl: use_kl_loss, kl_loss_type), the reference without gradient."""
    kl_BT = kl.estimate(logp_BT, ref_logp_BT.detach(), mask_BT, kind=kind)
    value = aggregate(kl_BT, mask_BT, mode=loss_agg_mode, normalizer=normalizer)
    return value, {"actor/kl_loss": value.detach()}


def ptx_loss(logp_BT: Tensor, mask_BT: Tensor, *, normalizer: Normalizer = None) -> tuple[Tensor, Metrics]:
    """Negative log-likelihood per token of pretraining or SFT text (InstructGPT, eq. 2); its mask marks labels."""
    loss = aggregate(-logp_BT, mask_BT, mode="token-mean", normalizer=normalizer)
    return loss, {"actor/ptx_loss": loss.detach()}


def total(
    pg_loss: Tensor,
    *,
    entropy: Tensor | None = None,
    entropy_coeff: float = 0.0,
    kl_loss: Tensor | None = None,
    kl_loss_coef: float = 0.0,
    ptx_loss: Tensor | None = None,
    ptx_coeff: float = 0.0,
) -> Tensor:
    """pg_loss - entropy_coeff * entropy + kl_loss_coef * kl_loss + ptx_coeff * ptx_loss."""
    loss = pg_loss
    for term, factor in ((entropy, -entropy_coeff), (kl_loss, kl_loss_coef), (ptx_loss, ptx_coeff)):
        if term is not None and factor != 0.0:
            loss = loss + factor * term
    return loss


@torch.no_grad()
def token_shares(per_token: Mapping[str, Tensor], mask_BT: Tensor, *, tokens: Tensor | float) -> Metrics:
    """Each tensor's sum over valid tokens, divided by the global number of tokens: shares that add up to a mean."""
    return {name: select(value, mask_BT).double().sum() / (float(tokens) or 1.0) for name, value in per_token.items()}


def _policy(
    loss_BT: Tensor,
    mask_BT: Tensor,
    per_token: Mapping[str, Tensor],
    *,
    weights_BT: Tensor | None,
    mode: str,
    normalizer: Normalizer,
    tokens: Normalizer,
) -> tuple[Tensor, Metrics]:
    if weights_BT is not None:
        loss_BT = loss_BT * select(weights_BT, mask_BT).detach()
    loss = aggregate(loss_BT, mask_BT, mode=mode, normalizer=normalizer)
    tokens = _token_count(mask_BT, mode=mode, normalizer=normalizer, tokens=tokens)
    return loss, {"actor/pg_loss": loss.detach(), **token_shares(per_token, mask_BT, tokens=tokens)}


def _token_count(mask_BT: Tensor, *, mode: str, normalizer: Normalizer, tokens: Normalizer) -> Tensor | float:
    if tokens is not None:
        return tokens
    return normalizer if mode == "token-mean" and normalizer is not None else count(mask_BT)


def _check_clip(*, clip_ratio_low: float, clip_ratio_high: float, clip_ratio_c: float | None) -> None:
    if not 0.0 <= clip_ratio_low < 1.0:
        raise ValueError(f"clip_ratio_low is {clip_ratio_low}: the ratio's lower bound 1 - low must lie in (0, 1]")
    if not clip_ratio_high >= 0.0:
        raise ValueError(f"clip_ratio_high is {clip_ratio_high}: make it >= 0")
    if clip_ratio_c is not None and not clip_ratio_c > 1.0:
        raise ValueError(f"clip_ratio_c is {clip_ratio_c}: the dual clip bounds ratios above 1; make it > 1, or null")

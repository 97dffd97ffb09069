"""Numbers for the log, over valid tokens only, under verl's metric names."""

import torch
from torch import Tensor

from fusedrl.rl.masked import check_shapes, count, select
from fusedrl.rl.normalize import moments, variance


@torch.no_grad()
def summary(x: Tensor, mask: Tensor, *, name: str) -> dict[str, float]:
    """{name}/mean, /max and /min of the valid entries; zeros where there are none."""
    if not bool((mask != 0).any()):
        return {f"{name}/{part}": 0.0 for part in ("mean", "max", "min")}
    return {
        f"{name}/mean": float(select(x, mask).double().sum() / count(mask)),
        f"{name}/max": float(select(x, mask, fill=-torch.inf).max()),
        f"{name}/min": float(select(x, mask, fill=torch.inf).min()),
    }


@torch.no_grad()
def critic_metrics(
    score_B: Tensor,
    rewards_BT: Tensor,
    advantages_BT: Tensor,
    returns_BT: Tensor,
    mask_BT: Tensor,
    *,
    values_BT: Tensor | None = None,
) -> dict[str, float]:
    """verl's critic/{score,rewards,advantages,returns,values}/{mean,max,min}; score and rewards are sums per sample."""
    live_B = (mask_BT != 0).any(dim=1)
    metrics = summary(score_B, torch.ones_like(live_B), name="critic/score")
    metrics |= summary(select(rewards_BT, mask_BT).sum(dim=1), live_B, name="critic/rewards")
    metrics |= summary(advantages_BT, mask_BT, name="critic/advantages")
    metrics |= summary(returns_BT, mask_BT, name="critic/returns")
    if values_BT is not None:
        metrics |= summary(values_BT, mask_BT, name="critic/values")
        metrics["critic/vf_explained_var"] = explained_variance(values_BT, returns_BT, mask_BT)
    return metrics


@torch.no_grad()
def length_metrics(lengths_B: Tensor, *, name: str, limit: int) -> dict[str, float]:
    """{name}/{mean,max,min,clip_ratio}; clip_ratio is the share of samples as long as the limit."""
    everything_B = torch.ones_like(lengths_B)
    metrics = summary(lengths_B, everything_B, name=name)
    cut = float((lengths_B >= limit).double().mean()) if len(lengths_B) else 0.0
    return {**metrics, f"{name}/clip_ratio": cut}


@torch.no_grad()
def explained_variance(values_BT: Tensor, returns_BT: Tensor, mask_BT: Tensor) -> float:
    """1 - var(returns - values) / var(returns) over valid tokens; 0 where the returns do not vary (undefined there)."""
    check_shapes(mask_BT, values=values_BT, returns=returns_BT)
    errors_BT = select(returns_BT, mask_BT).double() - select(values_BT, mask_BT).double()
    scale = float(variance(moments(returns_BT, mask_BT)))
    return 1.0 - float(variance(moments(errors_BT, mask_BT))) / scale if scale > 0.0 else 0.0

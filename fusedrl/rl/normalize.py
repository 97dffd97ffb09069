"""Whitening: zero mean and unit variance over the valid tokens of the *whole* batch, the variance unbiased (n - 1)
unless told otherwise.

The moments of a shard are three float64 numbers, [count, mean, sum of squared deviations]. They merge exactly (Chan,
Golub and LeVeque 1983), so a batch spread over ranks is whitened like one tensor:

    parts_S3 = all_gather(moments(x, mask))      # every rank joins, an empty shard with zeros
    y = whiten(x, mask, moments=combine(parts_S3))

Deviations are taken from the mean before they are squared: E[x^2] - E[x]^2 loses all digits where x is nearly constant.

Rule for one valid token in the whole batch: it has no variance, so it stays as it is, neither shifted nor scaled.
"""

import torch
from torch import Tensor

from fusedrl.rl.masked import count, select

VARIANCE_FLOOR = 1e-8  # added to the unbiased variance (verl, TRL), the least biased variance (OpenRLHF)


@torch.no_grad()
def moments(x: Tensor, mask: Tensor) -> Tensor:
    """[count, mean, sum of squared deviations] of the valid entries, float64 [3]; zeros where none is valid."""
    valid = select(x, mask).double()
    n = count(mask)
    mean = valid.sum() / n.clamp(min=1.0)
    deviations = select(valid - mean, mask)
    return torch.stack([n, mean, deviations.square().sum()])


@torch.no_grad()
def combine(parts_S3: Tensor) -> Tensor:
    """Moments of the union of S shards. The result depends on the shards' order by rounding only."""
    n_S, mean_S, squares_S = parts_S3.double().unbind(dim=1)
    n = n_S.sum()
    mean = (n_S * mean_S).sum() / n.clamp(min=1.0)
    return torch.stack([n, mean, (squares_S + n_S * (mean_S - mean).square()).sum()])


def variance(moments_3: Tensor) -> Tensor:
    """Unbiased variance; 0 for fewer than two entries."""
    n, _, squares = moments_3.unbind()
    return squares / (n - 1.0).clamp(min=1.0)


def _scale(moments_3: Tensor, *, unbiased: bool) -> Tensor:
    """What deviations are divided by."""
    if unbiased:
        return torch.sqrt(variance(moments_3) + VARIANCE_FLOOR)
    n, _, squares = moments_3.unbind()
    return torch.sqrt((squares / n.clamp(min=1.0)).clamp(min=VARIANCE_FLOOR))


def whiten(
    x: Tensor, mask: Tensor, *, shift_mean: bool = True, unbiased: bool = True, moments: Tensor | None = None
) -> Tensor:
    """(x - mean) / sqrt(var + 1e-8) on valid entries, 0 elsewhere; `shift_mean=False` keeps the mean.

    `unbiased=False`: the variance is divided by n, and is at least 1e-8, which is not added.
    `moments` [3]: those of the whole batch, where `x` is a shard of it. Default: those of `x`.
    """
    stats_3 = _moments_of(x, mask) if moments is None else moments.double()
    valid = select(x, mask)
    if float(stats_3[0]) < 2.0:
        return valid
    mean = stats_3[1]
    scaled = (valid.double() - mean) / _scale(stats_3, unbiased=unbiased)
    result = scaled if shift_mean else scaled + mean
    return select(result.to(valid.dtype), mask)


_moments_of = moments  # the keyword argument of `whiten` hides the function's name

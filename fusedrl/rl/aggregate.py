"""From a loss per token to one number, the same whatever the micro-batches.

    loss = sum over this micro-batch / normalizer of the GLOBAL mini-batch (all micro-batches, all data-parallel ranks)

Micro-batch losses and gradients therefore *add up*; nothing is averaged afterwards. Which sum, and what the normalizer
counts, is verl's `loss_agg_mode`:

    mode                      sum over samples of       normalizer counts
    token-mean                token losses              valid tokens
    seq-mean-token-sum        token losses              sequences with a valid token
    seq-mean-token-mean       mean of its tokens        sequences with a valid token
    seq-mean-token-sum-norm   token losses              such sequences, times `horizon` (Dr. GRPO's constant L)

    global_normalizer = sum of normalizer(mask, mode=mode) over micro-batches and ranks
"""

import torch
from torch import Tensor

from fusedrl.rl.masked import count, select

MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")


def check_mode(mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"loss_agg_mode is {mode!r}: take one of {', '.join(MODES)}")


@torch.no_grad()
def normalizer(mask_BT: Tensor, *, mode: str, horizon: int | None = None) -> Tensor:
    """This mask's share of the global normalizer, float64 scalar: add it up over micro-batches and ranks.

    `horizon`: L of seq-mean-token-sum-norm, default the mask's width; micro-batches of unequal width must give it.
    """
    check_mode(mode)
    if mode == "token-mean":
        return count(mask_BT)
    sequences = count((mask_BT != 0).any(dim=1))
    return sequences * (horizon or mask_BT.shape[1]) if mode == "seq-mean-token-sum-norm" else sequences


def aggregate(
    loss_BT: Tensor, mask_BT: Tensor, *, mode: str = "token-mean", normalizer: Tensor | float | None = None
) -> Tensor:
    """The loss share of this micro-batch. `normalizer` is the global one; default: this batch is all there is.

    A normalizer of 0 (nothing valid anywhere) gives 0, still differentiable; a negative one or NaN is an error.
    """
    check_mode(mode)
    total = _normalizer_of(mask_BT, mode=mode) if normalizer is None else normalizer
    if not float(total) >= 0.0:
        raise ValueError(f"the loss normalizer is {float(total)}: it is a count over the whole mini-batch")
    valid_BT = select(loss_BT, mask_BT)
    if mode == "seq-mean-token-mean":
        valid_BT = valid_BT / (mask_BT != 0).sum(dim=1, keepdim=True).clamp(min=1)
    return valid_BT.sum() / (float(total) or 1.0)


_normalizer_of = normalizer  # the keyword argument of `aggregate` hides the function's name

"""Reductions over the valid entries of a tensor. A mask entry that is non-zero counts; all others do not exist.

Masked entries are *selected away* before any arithmetic, never multiplied by zero: 0 * NaN is NaN, and so is the
gradient of exp() at a NaN that a later multiplication hides. So NaN and infinity at masked places reach neither a value
nor a gradient. Nothing valid gives 0, still attached to the graph. float64 stays float64; half precisions and integers
are computed in float32.
"""

import torch
from torch import Tensor


def check_shapes(mask: Tensor, **tensors: Tensor) -> None:
    """Every named tensor must have the mask's shape: silent broadcasting over samples has hidden real faults."""
    for name, tensor in tensors.items():
        if tensor.shape != mask.shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, its mask {tuple(mask.shape)}: make them equal")


def working(x: Tensor) -> Tensor:
    """`x` in the precision it is computed in: float64 and float32 as they are, anything else in float32."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def select(x: Tensor, mask: Tensor, *, fill: float = 0.0) -> Tensor:
    """`x` where the mask counts, `fill` elsewhere; the gradient at masked places is exactly 0."""
    check_shapes(mask, x=x)
    x = working(x)
    return torch.where(mask != 0, x, torch.full_like(x, fill))


def count(mask: Tensor) -> Tensor:
    """Number of valid entries, as a float64 scalar (exact up to 2^53, and it adds up over ranks)."""
    return (mask != 0).sum(dtype=torch.float64)


def masked_sum(x: Tensor, mask: Tensor) -> Tensor:
    return select(x, mask).sum()


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean over valid entries of the whole tensor, not of its rows' means; 0 if there are none."""
    total = masked_sum(x, mask)
    return total / count(mask).clamp(min=1.0).to(total.dtype)


def last_valid(mask_BT: Tensor) -> Tensor:
    """Index [B] of each row's last valid token; -1 for a row without one."""
    positions_T = torch.arange(1, mask_BT.shape[1] + 1, device=mask_BT.device)
    return (positions_T * (mask_BT != 0)).amax(dim=1) - 1 if mask_BT.shape[1] else mask_BT.new_full((len(mask_BT),), -1)


def broadcast_to_valid(x_B: Tensor, mask_BT: Tensor) -> Tensor:
    """One number a sample, written to each of its valid tokens; 0 elsewhere."""
    return select(x_B[:, None].expand(mask_BT.shape), mask_BT)

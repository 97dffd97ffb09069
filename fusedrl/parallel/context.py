"""Context parallelism: the ranks of a group share the tokens of every row, and how what they hold comes together.

    cp = 2, a row of 8 tokens in 4 chunks:   rank 0   0 1 | 6 7      chunks i and 2 cp - 1 - i: under a causal mask
                                             rank 1   2 3 | 4 5      every rank then has the same work

This is the split of Megatron's rotary positions and of Transformer Engine's attention. Rows are padded on the right to
a multiple of 2 cp; a rank may hold nothing but padding of a short row.

Two ways to gather, which differ backwards:

    gather_parts     each rank goes on with a computation of its own (keys and values): gradients of all are summed
    gather_results   each rank goes on with the same computation (a loss): each keeps its own tokens' gradient

Shapes: B rows, L tokens of a padded row, C = L / cp tokens of a share.
"""

from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@lru_cache(maxsize=256)
def share_positions(length: int, *, size: int, rank: int, device: torch.device) -> Tensor:
    """[C]: the positions, in a row of `length`, of the tokens that a rank of a group of `size` holds."""
    assert length % (2 * size) == 0, f"a row of {length} tokens is not 2 x {size} equal chunks"
    chunks = torch.arange(length, device=device).view(2 * size, -1)
    return torch.cat([chunks[rank], chunks[2 * size - 1 - rank]])


@lru_cache(maxsize=256)
def gathered_positions(length: int, *, size: int, device: torch.device) -> Tensor:
    """[L]: the positions of tokens that were gathered, rank after rank."""
    return torch.cat([share_positions(length, size=size, rank=rank, device=device) for rank in range(size)])


@lru_cache(maxsize=256)
def _natural_order(length: int, *, size: int, device: torch.device) -> Tensor:
    """[L]: where each position stands among gathered tokens."""
    return gathered_positions(length, size=size, device=device).argsort()


def gather_parts(share: Tensor, *, group: dist.ProcessGroup) -> Tensor:
    """[C, ...] of each rank -> [L, ...] on all, rank after rank. Collective, and so is its backward."""
    return _GatherParts.apply(share, group)


def gather_results(share_BC: Tensor, *, group: dist.ProcessGroup) -> Tensor:
    """[B, C] of each rank -> [B, L] on all, in the order of positions. Collective; its backward is not."""
    return _GatherResults.apply(share_BC, group)


def _gathered(share: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Along the first dimension."""
    whole = share.new_empty(group.size() * share.shape[0], *share.shape[1:])
    dist.all_gather_into_tensor(whole, share.contiguous(), group=group)
    return whole


class _GatherParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, share: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _gathered(share, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        own = gradient.new_empty(gradient.shape[0] // ctx.group.size(), *gradient.shape[1:])
        dist.reduce_scatter_tensor(own, gradient.contiguous(), group=ctx.group)
        return own, None


class _GatherResults(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, share_BC: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        whole_LB = _gathered(share_BC.t(), group)
        return whole_LB[_natural_order(len(whole_LB), size=group.size(), device=share_BC.device)].t()

    @staticmethod
    def backward(ctx: Any, gradient_BL: Tensor) -> tuple[Tensor, None]:
        size, rank = ctx.group.size(), ctx.group.rank()
        own_C = share_positions(gradient_BL.shape[1], size=size, rank=rank, device=gradient_BL.device)
        return gradient_BL[:, own_C], None

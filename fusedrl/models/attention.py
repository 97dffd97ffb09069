"""Attention of Megatron's local layers for tokens that are not whole padded rows, which Megatron's own refuses.

    context parallelism   keys and values of the group's ranks are gathered, queries stay: a rank's share of the tokens
                          against all of them. They stay in the gathered sequence, the mask knows their positions
    packed rows           one row after the other; what would be masked between rows is never computed

Transformer Engine's layers have an attention of their own for both; under context parallelism it passes keys and values
round instead of holding all of them. Where ranks hold whole padded rows, the local layers use Megatron's own.

Shapes: S tokens of queries, L of keys, N of packed rows, B rows, A query heads, K key-value heads, D head size, all of
this rank.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fusedrl.parallel.context import gather_parts, gathered_positions, share_positions


class _CoreAttention(nn.Module):
    """Stands where a local layer spec has its core attention; it has no weights. Causal, without dropout."""

    def __init__(
        self,
        config: Any,
        layer_number: int,
        attn_mask_type: Any,
        attention_type: str,
        *,
        pg_collection: Any,
        softmax_scale: float | None = None,
        **unused: Any,
    ) -> None:
        super().__init__()
        assert (attention_type, config.attention_dropout) == ("self", 0.0), "causal self-attention without dropout"
        self._group = pg_collection.cp
        self._scale = config.kv_channels**-0.5 if softmax_scale is None else softmax_scale


class GatheringAttention(_CoreAttention):
    """Of a context-parallel rank's share."""

    def forward(
        self,
        query_SBAD: Tensor,
        key_SBKD: Tensor,
        value_SBKD: Tensor,
        attention_mask: Tensor | None = None,
        attn_mask_type: Any = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: Any = None,
    ) -> Tensor:
        """[S, B, A D]; the signature is that of Megatron's core attention. Collective."""
        assert packed_seq_params is None, "rows are packed or shared by ranks, not both"
        head_dim = key_SBKD.shape[-1]
        both = gather_parts(torch.cat([key_SBKD, value_SBKD], dim=-1), group=self._group)
        size, rank, device = self._group.size(), self._group.rank(), both.device
        masked_SL = _masked_of_share(len(both), size=size, rank=rank, device=device)
        return attend(query_SBAD, both[..., :head_dim], both[..., head_dim:], masked_SL=masked_SL, scale=self._scale)


class PackedAttention(_CoreAttention):
    """Of rows laid end to end, as packed_seq_params say."""

    def forward(
        self,
        query_NAD: Tensor,
        key_NKD: Tensor,
        value_NKD: Tensor,
        attention_mask: Tensor | None = None,
        attn_mask_type: Any = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: Any = None,
    ) -> Tensor:
        """[N, 1, A D]; the signature is that of Megatron's core attention."""
        value_NKD = value_NKD.contiguous()  # a view would keep the whole projection of queries, keys and values
        ends = packed_seq_params.cu_seqlens_q.tolist()
        rows = []
        for first, end in pairwise(ends):
            query, key, value = (each[first:end, None] for each in (query_NAD, key_NKD, value_NKD))
            masked = _masked_of_row(end - first, device=query.device)
            rows.append(attend(query, key, value, masked_SL=masked, scale=self._scale))
        return torch.cat(rows)


def _masked_of_row(length: int, *, device: torch.device) -> Tensor:
    """[S, S]; cut from the mask of the next power of 2, so that few are kept for rows of all lengths."""
    return _causal_mask(1 << (length - 1).bit_length(), device=device)[:length, :length]


@lru_cache(maxsize=32)
def _causal_mask(length: int, *, device: torch.device) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


@lru_cache(maxsize=64)
def _masked_of_share(length: int, *, size: int, rank: int, device: torch.device) -> Tensor:
    """[S, L]: whether a gathered key comes after a query of this rank."""
    own_S = share_positions(length, size=size, rank=rank, device=device)
    return gathered_positions(length, size=size, device=device) > own_S[:, None]


def attend(query_SBAD: Tensor, key_LBKD: Tensor, value_LBKD: Tensor, *, masked_SL: Tensor, scale: float) -> Tensor:
    """[S, B, A D]: each query's mean of the values it may see, weighted by a softmax in float32.

    The query heads of a key-value head make one matrix product with it: keys and values are not expanded.
    """
    (S, B, A, D), (L, _, K, _) = query_SBAD.shape, key_LBKD.shape
    query = query_SBAD.view(S, B, K, A // K, D).permute(1, 2, 3, 0, 4).reshape(B * K, A // K * S, D)
    key, value = key_LBKD.reshape(L, B * K, D).permute(1, 2, 0), value_LBKD.reshape(L, B * K, D).transpose(0, 1)
    scores = torch.baddbmm(query.new_empty(1), query, key, beta=0.0, alpha=scale)
    scores = scores.view(B * K, A // K, S, L).to(torch.promote_types(scores.dtype, torch.float32))
    weights = torch.softmax(scores.masked_fill(masked_SL, -torch.inf), dim=-1).to(query.dtype)
    context = torch.bmm(weights.view(B * K, A // K * S, L), value)
    return context.view(B, K, A // K, S, D).permute(3, 0, 1, 2, 4).reshape(S, B, A * D)

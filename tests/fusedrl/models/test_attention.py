from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from fusedrl.models.attention import PackedAttention, _masked_of_share, attend
from fusedrl.parallel.context import gathered_positions, share_positions

CPU = torch.device("cpu")


def draw(length: int, *, heads: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """[L, B, heads, D]"""
    return torch.randn(length, 2, heads, 6, dtype=dtype, generator=torch.Generator().manual_seed(heads))


def reference(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """torch's own, causal, on the same layout."""
    q, k, v = (x.permute(1, 2, 0, 3) for x in (query, key, value))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.permute(2, 0, 1, 3).flatten(2)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_attention_of_grouped_heads_equals_torch_s(kv_heads: int) -> None:
    query, key, value = draw(8, heads=4), draw(8, heads=kv_heads), 1 + draw(8, heads=kv_heads)
    masked = torch.ones(8, 8, dtype=torch.bool).triu(1)
    found = attend(query, key, value, masked_SL=masked, scale=6**-0.5)
    assert torch.allclose(found, reference(query, key, value), rtol=0, atol=1e-14)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_share_s_queries_see_gathered_keys_up_to_their_own_position(rank: int) -> None:
    query, key, value = draw(8, heads=4), draw(8, heads=2), 1 + draw(8, heads=2)
    own, all_of = share_positions(8, size=2, rank=rank, device=CPU), gathered_positions(8, size=2, device=CPU)
    masked = _masked_of_share(8, size=2, rank=rank, device=CPU)
    found = attend(query[own], key[all_of], value[all_of], masked_SL=masked, scale=6**-0.5)
    assert torch.allclose(found, reference(query, key, value)[own], rtol=0, atol=1e-14)


def test_packed_rows_see_nothing_of_each_other() -> None:
    rows = [[draw(length, heads=heads)[:, 0] for heads in (4, 2, 1)] for length in (3, 1, 6)]
    rows = [[query, key[:, :2], value.expand(-1, 2, -1)] for query, key, value in rows]
    config = SimpleNamespace(attention_dropout=0.0, kv_channels=6)
    attention = PackedAttention(config, 1, None, "self", pg_collection=SimpleNamespace(cp=None))
    params = SimpleNamespace(cu_seqlens_q=torch.tensor([0, 3, 4, 10], dtype=torch.int32))
    found = attention(*(torch.cat(each) for each in zip(*rows, strict=True)), packed_seq_params=params)
    alone = torch.cat([reference(*(each[:, None] for each in row)) for row in rows])
    assert torch.allclose(found, alone, rtol=0, atol=1e-14)

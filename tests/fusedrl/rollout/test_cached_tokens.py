"""Packed samples are found again by their id, whichever of them travel on."""

import pytest
import torch

from fusedrl.rollout.cache import CacheShape
from fusedrl.rollout.cached_tokens import CachedTokens

SHAPE = CacheShape(layers=2, rows=4, max_length=20, groups=1, head_dim=3, dtype=torch.float32)


def packed() -> CachedTokens:
    cache = CachedTokens.empty({7: 2, 3: 0, 5: 4}, shape=SHAPE)
    cache.kv_LNG2D.copy_(torch.arange(cache.kv_LNG2D.numel()).view(cache.kv_LNG2D.shape))
    return cache


def test_each_sample_finds_its_own_tokens():
    cache = packed()
    assert torch.equal(torch.cat([cache.of(7), cache.of(3), cache.of(5)], dim=1), cache.kv_LNG2D)
    assert cache.of(5).shape[1] == 4
    with pytest.raises(KeyError):
        cache.of(4)


def test_a_share_is_packed_anew():
    share = packed().only([5, 3, 9])
    assert dict(share.lengths) == {3: 0, 5: 4}
    assert torch.equal(share.of(5), packed().of(5))
    assert share.kv_LNG2D.is_contiguous()
    assert share.bytes == 4 * SHAPE.token_bytes
    assert packed().only([]).bytes == 0


def test_another_layout_is_refused():
    packed().check(SHAPE)
    with pytest.raises(ValueError, match="of one model and layout"):
        packed().check(CacheShape(layers=3, rows=4, max_length=20, groups=1, head_dim=3, dtype=torch.float32))

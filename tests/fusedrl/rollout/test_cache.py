"""The cache returns what was written, through growth and moves."""

import pytest
import torch

from fusedrl.rollout.cache import CacheShape, KeyValueCache


def cache(*, rows: int = 3, max_length: int = 200) -> KeyValueCache:
    return KeyValueCache(
        CacheShape(layers=2, rows=rows, max_length=max_length, groups=2, head_dim=4, dtype=torch.float64)
    )


def test_prompts_and_tokens_read_back():
    c = cache()
    c.reserve(6)
    prompt_RTG2D = torch.randn(2, 5, 2, 2, 4, dtype=torch.float64)
    token_RG2D = torch.randn(2, 2, 2, 4, dtype=torch.float64)
    c.write_rows(1, first_row=1, keys_values_RTG2D=prompt_RTG2D)
    c.append(1, flat_R=torch.tensor([1, 2]) * c.capacity + torch.tensor([5, 3]), keys_values_RG2D=token_RG2D)
    keys, values = c.read(1, rows=3, length=6)
    assert torch.equal(keys[1, :, :5], prompt_RTG2D[0, :, :, 0].transpose(0, 1))
    assert torch.equal(values[2, :, 4], prompt_RTG2D[1, 4, :, 1])
    assert torch.equal(keys[1, :, 5], token_RG2D[0, :, 0])
    assert torch.equal(values[2, :, 3], token_RG2D[1, :, 1])
    assert not c.read(0, rows=3, length=6)[0].any()


def test_growth_keeps_contents_and_stops_at_max_length():
    c = cache(max_length=150)
    c.reserve(64)
    written = torch.randn(3, 64, 2, 2, 4, dtype=torch.float64)
    c.write_rows(0, first_row=0, keys_values_RTG2D=written)
    c.reserve(65)
    assert c.capacity == 128
    c.reserve(129)
    assert c.capacity == 150
    assert torch.equal(c.read(0, rows=3, length=64)[1], written[:, :, :, 1].transpose(1, 2))
    with pytest.raises(ValueError, match=r"151 tokens.*max_length=150"):
        c.reserve(151)


def test_move_copies_all_layers():
    c = cache()
    c.reserve(4)
    for layer in range(2):
        c.write_rows(layer, first_row=0, keys_values_RTG2D=torch.randn(3, 4, 2, 2, 4, dtype=torch.float64))
    before = [c.read(layer, rows=3, length=4)[0].clone() for layer in range(2)]
    c.move(source=torch.tensor([2]), target=torch.tensor([0]), length=4)
    for layer in range(2):
        keys = c.read(layer, rows=3, length=4)[0]
        assert torch.equal(keys[0], before[layer][2])
        assert torch.equal(keys[1:], before[layer][1:])


def test_memory_is_lazy_and_given_back():
    c = cache()
    assert c.bytes == 0
    c.reserve(1)
    assert c.bytes == 2 * 3 * 64 * 2 * 2 * 4 * 8
    c.release()
    assert c.bytes == 0

"""The cache returns what was written, through growth and moves."""

import pytest
import torch

from fusedrl.rollout.cache import CacheShape, KeyValueCache


def cache(*, rows: int = 3, max_length: int = 200, tokens: int | None = None) -> KeyValueCache:
    sizes = {"rows": rows, "max_length": max_length, "tokens": tokens}
    return KeyValueCache(CacheShape(layers=2, groups=2, head_dim=4, dtype=torch.float64, **sizes))


def test_prompts_and_tokens_read_back():
    c = cache()
    c.arrange(rows=3, length=6)
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
    c.arrange(rows=3, length=64)
    written = torch.randn(3, 64, 2, 2, 4, dtype=torch.float64)
    c.write_rows(0, first_row=0, keys_values_RTG2D=written)
    c.arrange(rows=3, length=65, kept=3)
    assert c.capacity == 128
    c.arrange(rows=3, length=129, kept=3)
    assert c.capacity == 150
    assert torch.equal(c.read(0, rows=3, length=64)[1], written[:, :, :, 1].transpose(1, 2))
    with pytest.raises(ValueError, match=r"151 tokens.*max_length=150"):
        c.arrange(rows=3, length=151, kept=3)


def test_move_copies_all_layers():
    c = cache()
    c.arrange(rows=3, length=4)
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
    c.arrange(rows=1, length=1)
    assert c.bytes == 2 * 3 * 64 * 2 * 2 * 4 * 8
    c.release()
    assert c.bytes == 0


def test_rows_are_moved_apart_and_together_within_the_budget():
    c = cache(rows=8, max_length=100, tokens=200)
    c.arrange(rows=6, length=20)
    assert c.capacity == 32  # what 200 places give each of 6 rows
    written = torch.randn(2, 6, 20, 2, 2, 4, dtype=torch.float64)
    for layer in range(2):
        c.write_rows(layer, first_row=0, keys_values_RTG2D=written[layer])
    taken = c.bytes
    assert c.rows_for(18) == 6
    for rows, length, capacity in ((2, 40, 64), (1, 90, 100), (3, 50, 64), (4, 20, 48)):
        kept = min(rows, 1)
        c.arrange(rows=rows, length=length, kept=kept)
        assert c.capacity == capacity
        assert torch.equal(c.read(1, rows=kept, length=18)[0], written[1, :kept, :18, :, 0].transpose(1, 2))
    assert c.bytes == taken == 200 * c.shape.token_bytes


def test_every_kept_row_survives_a_change_of_capacity():
    c = cache(rows=6, max_length=100, tokens=256)
    c.arrange(rows=6, length=16)
    written = torch.randn(6, 16, 2, 2, 4, dtype=torch.float64)
    c.write_rows(0, first_row=0, keys_values_RTG2D=written)
    for rows, length in ((4, 50), (3, 80), (6, 16), (4, 64)):
        c.arrange(rows=rows, length=length, kept=3)
        assert torch.equal(c.read(0, rows=3, length=16)[1], written[:3, :, :, 1].transpose(1, 2))


def test_packed_rows_are_unpacked_elsewhere():
    c, other = cache(rows=3), cache(rows=2, max_length=50, tokens=60)
    c.arrange(rows=3, length=9)
    for layer in range(2):
        c.write_rows(layer, first_row=0, keys_values_RTG2D=torch.randn(3, 9, 2, 2, 4, dtype=torch.float64))
    packed = c.pack([2, 0], lengths=[9, 4])
    assert packed.shape == (2, 13, 2, 2, 4)
    other.arrange(rows=1, length=9)
    other.unpack(0, packed[:, :9])
    for layer in range(2):
        assert torch.equal(other.read(layer, rows=1, length=9)[0][0], c.read(layer, rows=3, length=9)[0][2])
    assert c.pack([], lengths=[]).shape == (2, 0, 2, 2, 4)


def test_a_budget_below_one_row_is_refused():
    with pytest.raises(ValueError, match=r"49 tokens.*max_length=50"):
        cache(max_length=50, tokens=49)

import math
import statistics

import pytest
import torch

from fusedrl.rl.normalize import combine, moments, variance, whiten
from tests.fusedrl.rl.reference import NAN, normal, poisoned, ragged_batch


def test_whitened_tokens_have_mean_zero_and_unbiased_variance_one() -> None:
    generator, mask_BT = ragged_batch(samples=6, tokens=9, seed=1)
    x_BT = 3.0 + 2.0 * normal(mask_BT, generator)
    valid = whiten(x_BT, mask_BT)[mask_BT].tolist()
    assert math.isclose(statistics.fmean(valid), 0.0, abs_tol=1e-14)
    assert math.isclose(statistics.variance(valid), 1.0, rel_tol=1e-7)  # 1e-8 is added to the variance


def test_whiten_equals_the_loop_in_float64() -> None:
    generator, mask_BT = ragged_batch(samples=5, tokens=7, seed=2)
    x_BT = normal(mask_BT, generator)
    valid = x_BT[mask_BT].tolist()
    scale = math.sqrt(statistics.variance(valid) + 1e-8)
    expected = torch.tensor([(x - statistics.fmean(valid)) / scale for x in valid], dtype=torch.float64)
    torch.testing.assert_close(whiten(x_BT, mask_BT)[mask_BT], expected, rtol=1e-13, atol=1e-13)
    kept = whiten(x_BT, mask_BT, shift_mean=False)[mask_BT]
    torch.testing.assert_close(kept, expected + statistics.fmean(valid), rtol=1e-13, atol=1e-13)


def test_biased_variance_divides_by_the_count_and_is_at_least_its_floor() -> None:
    x = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
    scale = math.sqrt(statistics.pvariance(x.tolist()))
    assert whiten(x, torch.ones(3), unbiased=False).tolist() == pytest.approx([-2 / scale, -1 / scale, 3 / scale])
    near = torch.tensor([0.0, 1e-6], dtype=torch.float64)
    assert whiten(near, torch.ones(2), unbiased=False).tolist() == pytest.approx([-5e-3, 5e-3])
    assert whiten(0 * near, torch.ones(2), unbiased=False).tolist() == [0.0, 0.0]


def test_masked_places_stay_zero_and_nan_there_does_not_spread() -> None:
    generator, mask_BT = ragged_batch(samples=4, tokens=6, seed=3)
    clean_BT = normal(mask_BT, generator)
    result_BT = whiten(poisoned(clean_BT, mask_BT), mask_BT)
    assert torch.equal(result_BT, whiten(clean_BT, mask_BT))
    assert not result_BT[~mask_BT].any()
    assert not whiten(clean_BT, mask_BT, shift_mean=False)[~mask_BT].any()


def test_a_sharded_batch_is_whitened_like_one_tensor() -> None:
    generator, mask_BT = ragged_batch(samples=6, tokens=9, seed=4)
    x_BT = 1e3 + normal(mask_BT, generator)
    pieces = [(x_BT[:2], mask_BT[:2]), (x_BT[2:3], mask_BT[2:3] & False), (x_BT[2:], mask_BT[2:])]
    together = combine(torch.stack([moments(x, mask) for x, mask in pieces]))
    whole_BT = whiten(x_BT, mask_BT)
    for rows, (x, mask) in ((slice(0, 2), pieces[0]), (slice(2, 6), pieces[2])):
        torch.testing.assert_close(whiten(x, mask, moments=together), whole_BT[rows], rtol=1e-10, atol=1e-10)


def test_variance_survives_a_mean_far_from_zero() -> None:
    x = torch.tensor([1e8, 1e8 + 1, 1e8 + 2], dtype=torch.float64)
    assert variance(moments(x, torch.ones(3))) == 1.0
    halves = torch.stack([moments(x[:1], torch.ones(1)), moments(x[1:], torch.ones(2))])
    assert variance(combine(halves)) == 1.0


def test_equal_float32_values_whiten_to_zero() -> None:
    x = torch.full((7,), 1000.1)
    assert whiten(x, torch.ones(7)).abs().max() < 1e-6


def test_a_single_valid_token_stays_as_it_is() -> None:
    x, mask = torch.tensor([NAN, 0.7, 5.0]), torch.tensor([0, 1, 0])
    assert whiten(x, mask).tolist() == pytest.approx([0.0, 0.7, 0.0])
    assert whiten(x, mask, shift_mean=False).tolist() == pytest.approx([0.0, 0.7, 0.0])


def test_two_valid_tokens_are_whitened() -> None:
    assert whiten(torch.tensor([1.0, 3.0]), torch.ones(2)).tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_a_single_token_of_this_shard_is_whitened_by_the_whole_batch() -> None:
    whole = moments(torch.tensor([1.0, 2.0, 3.0]), torch.ones(3))
    assert whiten(torch.tensor([3.0]), torch.ones(1), moments=whole).item() == pytest.approx(1.0)


def test_an_empty_mask_gives_zeros_with_a_gradient() -> None:
    mask = torch.zeros(3)
    x = poisoned(torch.ones(3), mask)
    whiten(x, mask).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    assert combine(moments(x, mask)[None]).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_preserved(dtype: torch.dtype) -> None:
    assert whiten(torch.arange(4, dtype=dtype), torch.ones(4)).dtype == dtype

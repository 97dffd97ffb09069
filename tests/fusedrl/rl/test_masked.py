import pytest
import torch

from fusedrl.rl import masked
from tests.fusedrl.rl.reference import NAN, assert_masked_gradient_is_zero, poisoned, rows


def test_mean_skips_nan_at_masked_places() -> None:
    x, mask = torch.tensor([1.0, 2.0, NAN, 4.0]), torch.tensor([1, 0, 0, 1])
    assert masked.masked_mean(x, mask) == 2.5


@pytest.mark.parametrize("garbage", [NAN, float("inf"), -float("inf")])
def test_all_masked_gives_zero_that_is_still_differentiable(garbage: float) -> None:
    mask = torch.zeros(3)
    x = poisoned(torch.ones(3), mask, value=garbage)
    mean = masked.masked_mean(x, mask)
    assert mean == 0.0
    mean.backward()
    assert_masked_gradient_is_zero(x, mask)


def test_mean_is_over_the_tokens_of_all_rows_not_over_positions() -> None:
    advantages_BT = rows([1, 2, 0, 0], [3, 0, 0, 0])
    mask_BT = rows([1, 1, 0, 0], [1, 0, 0, 0])
    assert masked.masked_mean(advantages_BT, mask_BT) == 2.0


@pytest.mark.parametrize(
    ("given", "computed"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.int64, torch.float32),
    ],
)
def test_precision_is_kept_or_raised_to_float32(given: torch.dtype, computed: torch.dtype) -> None:
    assert masked.masked_sum(torch.ones(4, dtype=given), torch.ones(4)).dtype == computed


def test_bfloat16_counts_beyond_256() -> None:
    assert masked.masked_sum(torch.ones(1000, dtype=torch.bfloat16), torch.ones(1000)) == 1000


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.float64])
def test_mask_of_any_type_counts_its_nonzero_entries(dtype: torch.dtype) -> None:
    mask = torch.tensor([1, 0, 1]).to(dtype)
    assert masked.count(mask) == 2
    assert masked.masked_sum(torch.tensor([1.0, 10.0, 100.0]), mask) == 101


def test_shapes_must_be_equal_not_broadcastable() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(3,\), its mask \(2, 3\)"):
        masked.masked_mean(torch.ones(3), torch.ones(2, 3))


def test_last_valid_is_the_last_counting_token_with_holes_and_empty_rows() -> None:
    mask_BT = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]])
    assert masked.last_valid(mask_BT).tolist() == [2, 3, -1, 4, 0]
    assert masked.last_valid(mask_BT.bool()).tolist() == [2, 3, -1, 4, 0]
    assert masked.last_valid(torch.ones(2, 0)).tolist() == [-1, -1]

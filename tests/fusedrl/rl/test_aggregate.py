import pytest
import torch

from fusedrl.rl.aggregate import MODES, aggregate, normalizer
from tests.fusedrl.rl.reference import (
    NAN,
    aggregate_of,
    assert_masked_gradient_is_zero,
    normal,
    poisoned,
    ragged_batch,
    rows,
)


@pytest.mark.parametrize("mode", MODES)
def test_aggregate_equals_the_loop(mode: str) -> None:
    generator, mask_BT = ragged_batch(samples=6, tokens=9, seed=8)
    loss_BT = normal(mask_BT, generator)
    expected = aggregate_of(loss_BT, mask_BT, mode=mode, horizon=9)
    assert aggregate(loss_BT, mask_BT, mode=mode).item() == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(
    ("mode", "value"), [("token-mean", 1.0), ("seq-mean-token-sum", 2.0), ("seq-mean-token-mean", 1.0)]
)
def test_a_loss_of_ones_on_ragged_rows(mode: str, value: float) -> None:
    mask_BT = rows([1, 1, 1], [1, 0, 0])
    assert aggregate(rows([1, 1, 1], [1, NAN, NAN]), mask_BT, mode=mode) == value


def test_sum_norm_divides_by_the_constant_length_and_the_number_of_sequences() -> None:
    loss_BT, mask_BT = rows([1, 1, 1, 9], [1, 9, 9, 9]), rows([1, 1, 1, 0], [1, 0, 0, 0])
    assert aggregate(loss_BT, mask_BT, mode="seq-mean-token-sum-norm") == 0.5
    trimmed = normalizer(mask_BT[:, :3], mode="seq-mean-token-sum-norm", horizon=4)
    assert aggregate(loss_BT[:, :3], mask_BT[:, :3], mode="seq-mean-token-sum-norm", normalizer=trimmed) == 0.5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("micro_batch", [1, 2, 3, 6])
def test_loss_and_gradient_are_invariant_to_micro_batches(mode: str, micro_batch: int) -> None:
    generator, mask_BT = ragged_batch(samples=6, tokens=9, seed=9)
    whole_BT = poisoned(normal(mask_BT, generator), mask_BT)
    aggregate(whole_BT, mask_BT, mode=mode).backward()
    parts_BT = whole_BT.detach().clone().requires_grad_()
    masks = mask_BT.split(micro_batch)
    total = sum(float(normalizer(mask, mode=mode)) for mask in masks)
    losses = [
        aggregate(part, mask, mode=mode, normalizer=total)
        for part, mask in zip(parts_BT.split(micro_batch), masks, strict=True)
    ]
    torch.stack(losses).sum().backward()
    assert sum(map(float, losses)) == pytest.approx(float(aggregate(whole_BT, mask_BT, mode=mode)), rel=1e-14)
    assert whole_BT.grad is not None
    assert parts_BT.grad is not None
    assert torch.equal(parts_BT.grad, whole_BT.grad)


def test_loss_masks_are_counted_not_positions() -> None:
    masks = [rows([0, 1, 1, 0]), rows([1, 1, 1, 1])]
    assert sum(float(normalizer(mask, mode="token-mean")) for mask in masks) == 6


def test_ranks_weigh_by_their_tokens_not_equally() -> None:
    ranks = [(torch.full((1, 12), 0.25), torch.ones(1, 12)), (torch.full((1, 4), 0.75), torch.ones(1, 4))]
    total = sum(float(normalizer(mask, mode="token-mean")) for _, mask in ranks)
    assert sum(float(aggregate(loss, mask, normalizer=total)) for loss, mask in ranks) == 0.375


def test_logged_loss_of_two_micro_batches_of_means_one_and_three_is_two() -> None:
    shares = [aggregate(torch.full((1, 4), mean), torch.ones(1, 4), normalizer=8.0) for mean in (1.0, 3.0)]
    assert sum(map(float, shares)) == 2.0


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_mask_gives_zero_with_a_gradient(mode: str) -> None:
    mask_BT = torch.zeros(2, 3)
    loss_BT = poisoned(torch.ones(2, 3), mask_BT)
    total = aggregate(loss_BT, mask_BT, mode=mode)
    assert total == 0.0
    total.backward()
    assert_masked_gradient_is_zero(loss_BT, mask_BT)


@pytest.mark.parametrize("total", [-1.0, NAN])
def test_a_normalizer_that_counts_nothing_sensible_is_refused(total: float) -> None:
    with pytest.raises(ValueError, match="the loss normalizer is"):
        aggregate(torch.ones(1, 1), torch.ones(1, 1), normalizer=total)


def test_unknown_mode_names_the_choices() -> None:
    with pytest.raises(ValueError, match="'mean': take one of token-mean, seq-mean-token-sum"):
        aggregate(torch.ones(1, 1), torch.ones(1, 1), mode="mean")


def test_float64_is_preserved() -> None:
    total = normalizer(torch.ones(1, 1), mode="token-mean")
    assert aggregate(rows([1.0]), torch.ones(1, 1), normalizer=total).dtype == torch.float64
    assert aggregate(torch.ones(1, 1), torch.ones(1, 1), normalizer=total).dtype == torch.float32

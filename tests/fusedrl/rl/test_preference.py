import math

import pytest
import torch
from torch import Tensor

from fusedrl.rl.preference import bradley_terry, with_deviations, won


def rewards(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def loss_of_one(chosen: float, rejected: float, *, margin: float = 0.0, center: float = 0.0) -> float:
    """The definition; log1p keeps it exact for large differences."""
    beyond = chosen - rejected - margin
    penalty = center * (chosen + rejected) ** 2
    return (math.log1p(math.exp(-beyond)) if beyond > 0 else -beyond + math.log1p(math.exp(beyond))) + penalty


def random_pairs(count: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    chosen_P, rejected_P, margins_P = torch.randn(3, count, generator=generator, dtype=torch.float64)
    return chosen_P.requires_grad_(), rejected_P.requires_grad_(), margins_P.abs()


@pytest.mark.parametrize("center", [0.0, 0.3])
@pytest.mark.parametrize("with_margins", [True, False])
def test_bradley_terry_equals_the_loop(center: float, with_margins: bool) -> None:
    chosen_P, rejected_P, margins_P = random_pairs(9)
    margins = margins_P.tolist() if with_margins else [0.0] * 9
    loss, metrics = bradley_terry(chosen_P, rejected_P, margins_P=margins_P if with_margins else None, center=center)
    table = list(zip(chosen_P.tolist(), rejected_P.tolist(), margins, strict=True))
    expected = sum(loss_of_one(c, r, margin=m, center=center) for c, r, m in table) / 9
    assert loss.item() == pytest.approx(expected, rel=1e-13)
    assert metrics["rm/loss"] == loss
    assert metrics["rm/margin"].item() == pytest.approx(sum(c - r for c, r, _ in table) / 9, rel=1e-13)
    assert metrics["rm/accuracy"].item() == pytest.approx(sum(c > r for c, r, _ in table) / 9)


def test_gradient_is_that_of_the_sigmoid() -> None:
    chosen_P, rejected_P, margins_P = random_pairs(5)
    bradley_terry(chosen_P, rejected_P, margins_P=margins_P)[0].backward()
    expected_P = -torch.sigmoid(rejected_P + margins_P - chosen_P).detach() / 5
    torch.testing.assert_close(chosen_P.grad, expected_P, rtol=1e-14, atol=0)
    torch.testing.assert_close(rejected_P.grad, -expected_P, rtol=1e-14, atol=0)


@pytest.mark.parametrize("difference", [-1e4, -800.0, -30.0, 0.0, 19.0, 25.0, 40.0, 700.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_differences_of_any_size_give_their_own_loss_and_gradient(difference: float, dtype: torch.dtype) -> None:
    chosen_P = torch.tensor([difference], dtype=dtype, requires_grad=True)
    loss, _ = bradley_terry(chosen_P, torch.zeros(1, dtype=dtype))
    loss.backward()
    exact, tiny = (1e-14, 0.0) if dtype == torch.float64 else (1e-6, 1e-37)
    assert loss.item() == pytest.approx(loss_of_one(difference, 0.0), rel=exact, abs=tiny)
    slope = math.exp(-difference) / (1 + math.exp(-difference)) if difference > -700 else 1.0
    assert chosen_P.grad is not None
    assert -chosen_P.grad.item() == pytest.approx(slope, rel=exact, abs=tiny)


@pytest.mark.parametrize("micro_batch", [1, 2, 4, 7])
def test_loss_gradients_and_metrics_of_pairs_are_invariant_to_micro_batches(micro_batch: int) -> None:
    chosen_P, rejected_P, margins_P = random_pairs(7)
    whole, metrics = bradley_terry(chosen_P, rejected_P, margins_P=margins_P, center=0.1)
    whole.backward()
    expected, chosen_P.grad = chosen_P.grad, None
    sums: dict[str, float] = {}
    for part in torch.arange(7).split(micro_batch):
        share, found = bradley_terry(chosen_P[part], rejected_P[part], margins_P=margins_P[part], center=0.1, pairs=7)
        share.backward()
        sums = {name: sums.get(name, 0.0) + float(value) for name, value in found.items()}
    torch.testing.assert_close(chosen_P.grad, expected, rtol=1e-14, atol=0)
    assert sums == pytest.approx({name: float(value) for name, value in metrics.items()}, rel=1e-12)


def test_a_margin_asks_for_more_and_does_not_move_the_accuracy() -> None:
    chosen_P, rejected_P = rewards(1.0, 1.0), rewards(0.5, 2.0)
    plain, wide = (bradley_terry(chosen_P, rejected_P, margins_P=rewards(m, m))[0] for m in (0.0, 1.0))
    assert wide > plain
    assert bradley_terry(chosen_P, rejected_P, margins_P=rewards(1.0, 1.0))[1]["rm/accuracy"] == 0.5


def test_center_pulls_the_rewards_of_a_pair_to_zero_on_average() -> None:
    chosen_P, rejected_P = rewards(5.0), rewards(5.0)
    bradley_terry(chosen_P, rejected_P, center=0.1)[0].backward()
    assert chosen_P.grad is not None
    assert rejected_P.grad is not None
    assert (chosen_P.grad + rejected_P.grad).item() == pytest.approx(2 * 0.1 * 2 * 10.0)


def test_a_tie_is_half_right() -> None:
    assert won(rewards(1.0, 2.0, 0.0), rewards(1.0, 1.0, 3.0)).tolist() == [0.5, 1.0, 0.0]


def test_deviations_are_unbiased_and_exactly_zero_for_equal_rewards() -> None:
    chosen_P, rejected_P, _ = random_pairs(6)
    _, metrics = bradley_terry(chosen_P, torch.full((6,), 0.35, dtype=torch.float64))
    found = with_deviations({name: float(value) for name, value in metrics.items()}, pairs=6)
    assert found["rm/chosen/std"] == pytest.approx(chosen_P.detach().std().item(), rel=1e-12)
    assert found["rm/rejected/std"] == pytest.approx(0.0, abs=1e-7)
    assert not any("square" in name for name in found)
    _, one = bradley_terry(chosen_P[:1], rejected_P[:1])
    assert with_deviations({name: float(value) for name, value in one.items()}, pairs=1)["rm/chosen/std"] == 0.0


def test_shapes_that_would_broadcast_and_counts_of_none_are_refused() -> None:
    with pytest.raises(ValueError, match="rejected has shape"):
        bradley_terry(rewards(1.0, 2.0), rewards(1.0))
    with pytest.raises(ValueError, match="margins has shape"):
        bradley_terry(rewards(1.0, 2.0), rewards(1.0, 1.0), margins_P=rewards(0.0))
    with pytest.raises(ValueError, match=r"0\.0 pairs"):
        bradley_terry(rewards(1.0), rewards(1.0), pairs=0)


def test_half_precision_is_computed_in_float32() -> None:
    loss, _ = bradley_terry(torch.tensor([9.0], dtype=torch.bfloat16), torch.tensor([0.0], dtype=torch.bfloat16))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(loss_of_one(9.0, 0.0), rel=1e-6)

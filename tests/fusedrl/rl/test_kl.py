import math

import pytest
import torch

from fusedrl.rl.kl import AdaptiveController, FixedController, estimate
from tests.fusedrl.rl.reference import NAN, assert_masked_gradient_is_zero, by_samples, normal, poisoned, ragged_batch

FORMULAS = {
    "k1": lambda d: d,
    "kl": lambda d: d,
    "k2": lambda d: d * d / 2,
    "mse": lambda d: d * d / 2,
    "k3": lambda d: math.exp(-d) + d - 1,
    "low_var_kl": lambda d: math.exp(-d) + d - 1,
    "abs": abs,
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_estimate_equals_its_formula_token_by_token(kind: str) -> None:
    generator, mask_BT = ragged_batch(samples=4, tokens=6, seed=5)
    logp_BT, ref_BT = normal(mask_BT, generator), normal(mask_BT, generator)
    formula = FORMULAS[kind]
    expected_BT = by_samples(
        lambda ours, theirs: [formula(a - b) for a, b in zip(ours, theirs, strict=True)], mask_BT, logp_BT, ref_BT
    )
    torch.testing.assert_close(estimate(logp_BT, ref_BT, mask_BT, kind=kind), expected_BT, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "value"), [("k1", 0.5), ("k2", 0.125), ("k3", 0.10653)])
def test_estimators_at_half_a_nat(kind: str, value: float) -> None:
    kl = estimate(torch.tensor([-1.0]), torch.tensor([-1.5]), torch.ones(1), kind=kind)
    assert kl.item() == pytest.approx(value, abs=1e-5)


def test_k3_clamps_the_exponent_before_the_exponential() -> None:
    kl = estimate(torch.tensor([-3.0, -1.0]), torch.zeros(2), torch.ones(2), kind="k3", log_ratio_clamp=2.0)
    assert kl.tolist() == pytest.approx([4.389056, 0.7182818])


def test_k3_stays_finite_at_its_default_clamps_and_is_never_negative() -> None:
    logp = torch.tensor([-500.0, 0.0, -1e-5])
    kl = estimate(logp, torch.zeros(3), torch.ones(3), kind="k3")
    assert kl[0] == 10.0
    assert (kl >= 0).all()
    assert kl[2].item() == pytest.approx(5e-11, rel=1e-3)  # e^x - x - 1 in float32 would give 0


def test_k1_is_not_clamped() -> None:
    assert estimate(torch.tensor([0.0]), torch.tensor([-100.0]), torch.ones(1), kind="k1").item() == 100.0


@pytest.mark.parametrize("kind", FORMULAS)
def test_nan_at_masked_places_reaches_neither_value_nor_gradient(kind: str) -> None:
    mask = torch.tensor([1.0, 0.0])
    logp, ref = poisoned(torch.tensor([-1.0, 0.0]), mask), poisoned(torch.tensor([-1.0, 0.0]), mask)
    kl = estimate(logp, ref, mask, kind=kind)
    assert kl.tolist() == [0.0, 0.0]
    kl.sum().backward()
    assert_masked_gradient_is_zero(logp, mask)
    assert_masked_gradient_is_zero(ref, mask)


@pytest.mark.parametrize("kind", ["k1", "k3", "low_var_kl", "abs", "kl"])
def test_straight_through_keeps_the_value_and_takes_the_gradient_of_k2(kind: str) -> None:
    logp = torch.tensor([-1.0, -2.0, -0.3], dtype=torch.float64, requires_grad=True)
    ref, mask = torch.tensor([-1.5, -1.0, -0.3], dtype=torch.float64), torch.ones(3)
    through = estimate(logp, ref, mask, kind=f"{kind}+")
    assert torch.equal(through.detach(), estimate(logp, ref, mask, kind=kind).detach())
    assert torch.equal(through.detach(), estimate(logp, ref, mask, kind=kind, straight_through=True).detach())
    (gradient,) = torch.autograd.grad(through.sum(), logp)
    assert torch.equal(gradient, (logp - ref).detach())


def test_unknown_kind_names_the_choices() -> None:
    with pytest.raises(ValueError, match=r"'k4' is unknown: take one of k1, k2, k3, abs, kl, mse, low_var_kl"):
        estimate(torch.zeros(1), torch.zeros(1), torch.ones(1), kind="k4")


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="ref_logp has shape"):
        estimate(torch.zeros(2, 3), torch.zeros(3), torch.ones(2, 3), kind="k1")


def test_float64_is_preserved() -> None:
    zeros = torch.zeros(1, dtype=torch.float64)
    assert estimate(zeros, zeros, torch.ones(1), kind="k3").dtype == torch.float64


@pytest.mark.parametrize(
    ("coef", "target", "kl", "samples", "horizon", "after"),
    [
        (0.2, 6.0, 12.0, 256, 10000.0, 0.201024),
        (0.1, 1.0, 5.0, 10, 100.0, 0.102),
        (0.1, 1.0, 1.1, 10, 100.0, 0.101),
        (0.1, 2.0, 2.2, 10, 100.0, 0.101),
        (0.1, 1.0, 0.0, 10, 100.0, 0.098),
    ],
)
def test_adaptive_controller_follows_the_kl_by_at_most_a_fifth(
    coef: float, target: float, kl: float, samples: int, horizon: float, after: float
) -> None:
    controller = AdaptiveController(coef=coef, target=target, horizon=horizon)
    assert controller.update(kl, samples=samples).coef == pytest.approx(after, abs=1e-9)
    assert controller.coef == coef


@pytest.mark.parametrize(("target", "horizon", "key"), [(0.0, 1.0, "target_kl"), (1.0, -2.0, "horizon")])
def test_adaptive_controller_rejects_a_target_or_horizon_not_positive(target: float, horizon: float, key: str) -> None:
    with pytest.raises(ValueError, match=rf"kl_ctrl.{key} is"):
        AdaptiveController(coef=0.1, target=target, horizon=horizon)


def test_adaptive_controller_refuses_a_kl_that_is_not_finite() -> None:
    with pytest.raises(ValueError, match="KL of the batch is nan"):
        AdaptiveController(coef=0.1, target=1.0, horizon=1.0).update(NAN, samples=1)


def test_fixed_controller_keeps_its_coefficient() -> None:
    assert FixedController(0.3).update(100.0, samples=5).coef == 0.3

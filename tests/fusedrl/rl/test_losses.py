import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fusedrl.rl import losses
from fusedrl.rl.aggregate import MODES, normalizer
from tests.fusedrl.rl.reference import (
    NAN,
    aggregate_of,
    assert_masked_gradient_is_zero,
    normal,
    poisoned,
    ppo_of_one,
    ragged_batch,
    rows,
)

CLIP = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.3, "clip_ratio_c": 1.5}


def policy_batch(*, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator, mask_BT = ragged_batch(samples=8, tokens=10, seed=seed)
    old_BT = normal(mask_BT, generator)
    return old_BT + 0.4 * normal(mask_BT, generator), old_BT, normal(mask_BT, generator), mask_BT


def ppo_table(logp_BT: Tensor, old_BT: Tensor, adv_BT: Tensor, *, c: float | None) -> list[Tensor]:
    """Loss, clipped?, bounded? of every token, by the scalar formula."""
    table = [
        ppo_of_one(*map(float, token), low=0.2, high=0.3, c=c)
        for token in zip(logp_BT.flatten(), old_BT.flatten(), adv_BT.flatten(), strict=True)
    ]
    return [torch.tensor(column, dtype=torch.float64).view(logp_BT.shape) for column in zip(*table, strict=True)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("c", [1.5, None])
def test_policy_loss_equals_the_loop(mode: str, c: float | None) -> None:
    logp_BT, old_BT, adv_BT, mask_BT = policy_batch(seed=10)
    loss_BT, clipped_BT, bounded_BT = ppo_table(logp_BT, old_BT, adv_BT, c=c)
    loss, metrics = losses.policy_loss(
        logp_BT, old_BT, adv_BT, mask_BT, **(CLIP | {"clip_ratio_c": c}), loss_agg_mode=mode
    )
    assert loss.item() == pytest.approx(aggregate_of(loss_BT, mask_BT, mode=mode, horizon=10), rel=1e-12)
    assert metrics["actor/pg_loss"] == loss
    for name, expected_BT in (
        ("actor/pg_clipfrac", clipped_BT),
        ("actor/pg_clipfrac_lower", bounded_BT),
        ("actor/ppo_kl", old_BT - logp_BT),
    ):
        assert metrics[name].item() == pytest.approx(expected_BT[mask_BT].mean().item(), rel=1e-12), name


def test_policy_batch_of_the_loop_test_holds_every_branch() -> None:
    logp_BT, old_BT, adv_BT, mask_BT = policy_batch(seed=10)
    _, clipped_BT, bounded_BT = ppo_table(logp_BT, old_BT, adv_BT, c=1.5)
    kinds = {(bool(c), bool(b)) for c, b in zip(clipped_BT[mask_BT], bounded_BT[mask_BT], strict=True)}
    assert kinds == {(False, False), (True, False), (False, True)}


def test_policy_gradient_matches_finite_differences() -> None:
    logp_BT, old_BT, adv_BT, mask_BT = policy_batch(seed=11)
    logp_BT.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda logp: losses.policy_loss(logp, old_BT, adv_BT, mask_BT, **CLIP)[0], (logp_BT,)
    )


@pytest.mark.parametrize("which", range(3))
def test_policy_loss_is_deaf_to_nan_at_masked_places(which: int) -> None:
    batch, mask_BT = policy_batch(seed=12)[:3], policy_batch(seed=12)[3]
    clean, _ = losses.policy_loss(*batch, mask_BT)
    dirty = [poisoned(x, mask_BT) if i == which else x.clone().requires_grad_() for i, x in enumerate(batch)]
    loss, metrics = losses.policy_loss(*dirty, mask_BT)
    loss.backward()
    assert torch.equal(loss, clean)
    assert all(math.isfinite(value) for value in metrics.values())
    assert_masked_gradient_is_zero(dirty[0], mask_BT)


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_ragged_rows_of_opposite_advantage_do_not_cancel_in_small_micro_batches(micro_batch: int) -> None:
    logp_BT = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    adv_BT, mask_BT = rows([1, 0, 0], [-1, -1, -1]), rows([1, 0, 0], [1, 1, 1])
    shares = [
        losses.policy_loss(*part, normalizer=4.0)[0]
        for part in zip(*(x.split(micro_batch) for x in (logp_BT, logp_BT.detach(), adv_BT, mask_BT)), strict=True)
    ]
    torch.stack(shares).sum().backward()
    assert sum(map(float, shares)) == 0.5
    assert logp_BT.grad is not None
    assert logp_BT.grad.tolist() == [[-0.25, 0, 0], [0.25, 0.25, 0.25]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("micro_batch", [1, 2, 4])
@pytest.mark.parametrize("objective", ["policy", "gspo", "value"])
def test_loss_gradient_and_metrics_are_invariant_to_micro_batches(objective: str, mode: str, micro_batch: int) -> None:
    *batch, mask_BT = policy_batch(seed=13)
    function = {"policy": losses.policy_loss, "gspo": losses.gspo, "value": losses.value_loss}[objective]
    whole = batch[0].clone().requires_grad_()
    loss, metrics = function(whole, *batch[1:], mask_BT, loss_agg_mode=mode)
    loss.backward()
    split = batch[0].clone().requires_grad_()
    counts = {"normalizer": float(normalizer(mask_BT, mode=mode)), "tokens": float(mask_BT.sum())}
    shares = [
        function(*part, loss_agg_mode=mode, **counts)
        for part in zip(*(x.split(micro_batch) for x in (split, *batch[1:], mask_BT)), strict=True)
    ]
    torch.stack([share for share, _ in shares]).sum().backward()
    assert torch.equal(split.grad, whole.grad)
    for name, value in metrics.items():
        assert sum(float(part[name]) for _, part in shares) == pytest.approx(float(value), rel=1e-12), name


def test_one_token_average_is_enough_for_metrics_in_token_mean_mode() -> None:
    zeros, ones = torch.zeros(1, 2), torch.ones(1, 2)
    _, metrics = losses.policy_loss(zeros - 1, zeros, ones, ones, normalizer=8.0)
    assert metrics["actor/ppo_kl"] == 0.25  # two of the eight tokens, one nat each


def test_reported_kl_is_not_clamped_and_is_zero_for_the_same_policy() -> None:
    one = torch.ones(1, 1)
    _, far = losses.policy_loss(100 * one, 0 * one, one, one)
    _, same = losses.policy_loss(-3 * one, -3 * one, one, one)
    assert far["actor/ppo_kl"] == -100
    assert same["actor/ppo_kl"] == 0


def test_a_ratio_beyond_the_exponential_stays_finite() -> None:
    one = torch.ones(1, 1)
    loss, _ = losses.policy_loss(1000 * one, 0 * one, -one, one, clip_ratio_c=None)
    assert math.isfinite(loss)


@pytest.mark.parametrize("function", [losses.policy_loss, losses.gspo, losses.value_loss])
def test_targets_receive_no_gradient_and_metrics_carry_none(function: Callable) -> None:
    *batch, mask_BT = policy_batch(seed=14)
    leaves = [x.clone().requires_grad_() for x in batch]
    loss, metrics = function(*leaves, mask_BT)
    loss.backward()
    assert [i for i, leaf in enumerate(leaves) if leaf.grad is None] == [1, 2]
    assert not any(value.requires_grad for value in metrics.values())


def test_metrics_of_single_terms_carry_no_gradient() -> None:
    x, mask = rows([1.0, 2.0]).requires_grad_(), rows([1, 1])
    for _, metrics in (losses.entropy(x, mask), losses.kl_loss(x, x.detach(), mask), losses.ptx_loss(x, mask)):
        assert not any(value.requires_grad for value in metrics.values())


def test_default_clips_are_verl_s() -> None:
    *batch, mask_BT = policy_batch(seed=10)
    clips = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0}
    batch[0] = batch[1] + 3 * (batch[0] - batch[1])  # far enough for the dual clip
    assert torch.equal(losses.policy_loss(*batch, mask_BT)[0], losses.policy_loss(*batch, mask_BT, **clips)[0])
    explicit, _ = losses.value_loss(*batch, mask_BT, cliprange_value=0.5)
    assert torch.equal(losses.value_loss(*batch, mask_BT)[0], explicit)


def test_a_clip_range_of_zero_keeps_the_first_step_s_gradient() -> None:
    logp = rows([-1.0]).requires_grad_()
    loss, _ = losses.policy_loss(logp, rows([-1.0]), rows([2.0]), rows([1]), clip_ratio_low=0.0, clip_ratio_high=0.0)
    loss.backward()
    assert logp.grad is not None
    assert logp.grad.item() == -2.0


def test_weights_scale_the_loss_per_token_and_carry_no_gradient() -> None:
    logp, old, adv, mask = (rows([0.0, 0.0]) for _ in range(4))
    weights = rows([0.5, 2.0]).requires_grad_()
    loss, _ = losses.policy_loss(logp.requires_grad_(), old, adv - 1, mask + 1, weights_BT=weights)
    loss.backward()
    assert loss == 1.25
    assert weights.grad is None
    assert logp.grad is not None
    assert logp.grad.tolist() == [[0.25, 1.0]]


@pytest.mark.parametrize(
    ("key", "value"), [("clip_ratio_low", 1.0), ("clip_ratio_high", -0.1), ("clip_ratio_c", 1.0), ("clip_ratio_c", 0.0)]
)
def test_clip_ranges_that_make_no_sense_are_refused_by_name(key: str, value: float) -> None:
    one = torch.ones(1, 1)
    with pytest.raises(ValueError, match=rf"{key} is {value}"):
        losses.policy_loss(one, one, one, one, **{key: value})


@pytest.mark.parametrize(
    ("function", "name"),
    [(losses.policy_loss, "advantages"), (losses.gspo, "advantages"), (losses.value_loss, "returns")],
)
def test_shapes_that_would_broadcast_are_refused(function: Callable, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} has shape \(2, 1\), its mask \(2, 3\)"):
        function(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, 1), torch.ones(2, 3))


def test_gspo_has_one_ratio_a_sequence() -> None:
    logp_BT, old_BT, adv_BT, mask_BT = policy_batch(seed=15)
    adv_BT = adv_BT[:, :1].expand(adv_BT.shape)
    loss, metrics = losses.gspo(logp_BT, old_BT, adv_BT, mask_BT, clip_ratio_low=0.05, clip_ratio_high=0.08)
    terms = []
    for logp, old, adv, mask in zip(logp_BT, old_BT, adv_BT, mask_BT, strict=True):
        if mask.any():
            mean = sum((logp - old)[mask].tolist()) / int(mask.sum())
            terms.append(ppo_of_one(mean, 0.0, float(adv[0]), low=0.05, high=0.08, c=None)[0])
    assert loss.item() == pytest.approx(sum(terms) / len(terms), rel=1e-12)
    assert 0 < metrics["actor/pg_clipfrac"] < 1
    assert metrics["actor/ppo_kl"].item() == pytest.approx((old_BT - logp_BT)[mask_BT].mean().item())


def test_gspo_gradient_is_that_of_the_sequence_ratio() -> None:
    logp_BT = rows([-1.0, -2.0, 0.0], [-0.5, 0.0, 0.0]).requires_grad_()
    old_BT, mask_BT = rows([-1.1, -2.0, NAN], [-0.4, NAN, NAN]), rows([1, 1, 0], [1, 0, 0])
    adv_BT = rows([2, 2, 2], [-1, -1, -1])
    losses.gspo(logp_BT, old_BT, adv_BT, mask_BT, clip_ratio_low=0.5, clip_ratio_high=0.5)[0].backward()
    first, second = math.exp(0.05), math.exp(-0.1)
    assert logp_BT.grad is not None
    assert logp_BT.grad.flatten().tolist() == pytest.approx([-first / 2, -first / 2, 0, second / 2, 0, 0])


def test_dapo_is_the_policy_loss_with_a_wider_upper_clip_and_no_dual_clip() -> None:
    *batch, mask_BT = policy_batch(seed=16)
    loss, _ = losses.dapo(*batch, mask_BT)
    same, _ = losses.policy_loss(*batch, mask_BT, clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=None)
    assert torch.equal(loss, same)
    assert not torch.equal(loss, losses.policy_loss(*batch, mask_BT)[0])


def test_value_loss_equals_the_loop() -> None:
    values_BT, old_BT, returns_BT, mask_BT = policy_batch(seed=17)
    loss_BT, clipped_BT = torch.zeros_like(values_BT), torch.zeros_like(values_BT)
    for b, t in mask_BT.nonzero().tolist():
        v, old, ret = (float(x[b, t]) for x in (values_BT, old_BT, returns_BT))
        free, far = (v - ret) ** 2, (min(max(v, old - 0.3), old + 0.3) - ret) ** 2
        loss_BT[b, t], clipped_BT[b, t] = 0.5 * max(free, far), far > free
    loss, metrics = losses.value_loss(values_BT, old_BT, returns_BT, mask_BT, cliprange_value=0.3)
    assert loss.item() == pytest.approx(loss_BT[mask_BT].mean().item(), rel=1e-12)
    assert metrics["critic/vf_clipfrac"].item() == pytest.approx(clipped_BT[mask_BT].mean().item())
    assert 0 < metrics["critic/vf_clipfrac"] < 1
    assert metrics["critic/vpred_mean"].item() == pytest.approx(values_BT[mask_BT].mean().item())
    assert metrics["critic/vf_loss"] == loss


def test_value_loss_has_the_factor_one_half_and_may_be_unclipped() -> None:
    loss, metrics = losses.value_loss(rows([3.0]), rows([0.0]), rows([1.0]), rows([1]), cliprange_value=None)
    assert loss == 2.0
    assert metrics["critic/vf_clipfrac"] == 0


def test_value_loss_of_ragged_micro_batches_weighs_every_token_alike() -> None:
    values_BT, zeros, mask_BT = rows([2, NAN, NAN], [1, 1, 1]), rows([0, 0, 0], [0, 0, 0]), rows([1, 0, 0], [1, 1, 1])
    shares = [
        losses.value_loss(*part, cliprange_value=None, normalizer=4.0)
        for part in zip(*(x.split(1) for x in (values_BT, zeros, zeros, mask_BT)), strict=True)
    ]
    assert sum(float(loss) for loss, _ in shares) == 0.875
    assert sum(float(metrics["critic/vf_loss"]) for _, metrics in shares) == 0.875


@pytest.mark.parametrize("which", range(3))
def test_value_loss_is_deaf_to_nan_at_masked_places(which: int) -> None:
    *batch, mask_BT = policy_batch(seed=18)
    dirty = [poisoned(x, mask_BT) if i == which else x.clone().requires_grad_() for i, x in enumerate(batch)]
    loss, _ = losses.value_loss(*dirty, mask_BT)
    loss.backward()
    assert torch.equal(loss, losses.value_loss(*batch, mask_BT)[0])
    assert_masked_gradient_is_zero(dirty[0], mask_BT)


@pytest.mark.parametrize("function", [losses.policy_loss, losses.gspo, losses.dapo, losses.value_loss])
def test_an_empty_mask_gives_zero_with_a_gradient(function: Callable) -> None:
    mask_BT = torch.zeros(2, 3)
    leaf = poisoned(torch.ones(2, 3), mask_BT)
    loss, metrics = function(leaf, leaf.detach(), leaf.detach(), mask_BT)
    loss.backward()
    assert loss == 0
    assert all(value == 0 for value in metrics.values())
    assert_masked_gradient_is_zero(leaf, mask_BT)


@pytest.mark.parametrize("mode", MODES)
def test_entropy_and_kl_loss_are_aggregated_like_the_policy_loss(mode: str) -> None:
    logp_BT, ref_BT, entropy_BT, mask_BT = policy_batch(seed=19)
    entropy, metrics = losses.entropy(entropy_BT, mask_BT, loss_agg_mode=mode)
    assert entropy.item() == pytest.approx(aggregate_of(entropy_BT, mask_BT, mode=mode, horizon=10), rel=1e-12)
    assert metrics == {"actor/entropy": entropy}
    kl, metrics = losses.kl_loss(logp_BT, ref_BT, mask_BT, kind="mse", loss_agg_mode=mode)
    squares_BT = (logp_BT - ref_BT).square() / 2
    assert kl.item() == pytest.approx(aggregate_of(squares_BT, mask_BT, mode=mode, horizon=10), rel=1e-12)
    assert metrics == {"actor/kl_loss": kl}


def test_kl_loss_moves_the_policy_not_the_reference() -> None:
    logp, ref = rows([-1.0]).requires_grad_(), rows([-2.0]).requires_grad_()
    losses.kl_loss(logp, ref, rows([1]))[0].backward()
    assert logp.grad is not None
    assert ref.grad is None


def test_total_adds_the_kl_and_subtracts_the_entropy() -> None:
    one, half = torch.tensor(1.0), torch.tensor(0.5)
    assert losses.total(one, kl_loss=half, kl_loss_coef=0.1) == pytest.approx(1.05)
    assert losses.total(one, entropy=half, entropy_coeff=0.1) == pytest.approx(0.95)
    assert losses.total(one, ptx_loss=half, ptx_coeff=2.0) == 2.0
    assert losses.total(one, entropy=torch.tensor(NAN), entropy_coeff=0.0) == 1.0


def test_ptx_loss_is_the_mean_negative_log_likelihood_of_labels() -> None:
    loss, _ = losses.ptx_loss(rows([-1, -3, NAN]), rows([1, 1, 0]))
    assert loss == 2.0
    assert losses.ptx_loss(rows([-1, -3, NAN]), rows([1, 1, 0]), normalizer=4.0)[0] == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_preserved(dtype: torch.dtype) -> None:
    one = torch.ones(1, 1, dtype=dtype)
    count = torch.tensor(1.0, dtype=torch.float64)
    for function in (losses.policy_loss, losses.gspo, losses.value_loss):
        assert function(one, one, one, one, normalizer=count)[0].dtype == dtype

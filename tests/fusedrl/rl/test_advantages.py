from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fusedrl.rl import advantages
from tests.fusedrl.rl.reference import NAN, by_samples, gae_of_one, normal, poisoned, ragged_batch, rows


def gae_of(rewards: list[float], values: list[float], mask: list[float], **factors: float) -> list[float]:
    return advantages.gae(rows(rewards), rows(values), rows(mask), **factors)[0][0].tolist()


def scores(*values: float) -> tuple[Tensor, Tensor]:
    """Rewards [B, 1] and their mask, all in one group unless told otherwise."""
    return rows(*([value] for value in values)), torch.ones(len(values), 1)


def one_group(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.int64)


def test_gae_equals_its_definition_on_the_valid_tokens() -> None:
    generator, mask_BT = ragged_batch(samples=6, tokens=11, seed=6)
    rewards_BT, values_BT = normal(mask_BT, generator), normal(mask_BT, generator)
    expected_BT = by_samples(lambda r, v: gae_of_one(r, v, gamma=0.97, lam=0.9), mask_BT, rewards_BT, values_BT)
    found_BT, returns_BT = advantages.gae(rewards_BT, values_BT, mask_BT, gamma=0.97, lam=0.9)
    torch.testing.assert_close(found_BT, expected_BT, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(returns_BT, (expected_BT + values_BT) * mask_BT, rtol=1e-12, atol=1e-12)


def test_gae_ignores_the_value_of_a_masked_token_after_the_end() -> None:
    assert gae_of([0, 1, 0], [0, 0, 100], [1, 1, 0], gamma=1, lam=0.95) == pytest.approx([0.95, 1, 0])


def test_gae_keeps_the_reward_of_the_last_valid_token_without_discounting_the_future() -> None:
    assert gae_of([0, 1, 0], [0, 0, 0], [1, 1, 0], gamma=0, lam=1) == [0, 1, 0]


def test_masked_tokens_inside_a_response_do_not_change_the_advantages_of_valid_ones() -> None:
    plain = gae_of([0, 0, 1], [0.1, 0.2, 0.3], [1, 1, 1], gamma=0.99, lam=0.95)
    assert plain == pytest.approx([0.808407, 0.75535, 0.7])
    holes = gae_of([0, 9, NAN, 0, 1, 5], [0.1, 7, NAN, 0.2, 0.3, -8], [1, 0, 0, 1, 1, 0], gamma=0.99, lam=0.95)
    assert [holes[0], holes[3], holes[4]] == plain
    assert [holes[1], holes[2], holes[5]] == [0, 0, 0]


def test_bootstrap_value_continues_a_response_that_was_cut() -> None:
    rewards, values, mask = rows([0, 0, 0]), rows([0.1, 0.2, 9]), rows([1, 1, 0])
    found, _ = advantages.gae(rewards, values, mask, gamma=0.9, lam=0.5, bootstrap_B=torch.tensor([2.0]))
    last = 0.9 * 2.0 - 0.2
    assert found[0].tolist() == pytest.approx([0.9 * 0.2 - 0.1 + 0.45 * last, last, 0])


def test_estimates_carry_no_gradient_and_keep_float64() -> None:
    values = rows([1.0, 2.0]).requires_grad_()
    found, returns = advantages.gae(rows([0.0, 1.0]), values, rows([1, 1]), gamma=1, lam=1)
    assert not found.requires_grad
    assert not returns.requires_grad
    assert found.dtype == returns.dtype == torch.float64


def test_gae_of_empty_responses_is_empty_or_zero() -> None:
    found, returns = advantages.gae(torch.ones(2, 0), torch.ones(2, 0), torch.ones(2, 0), gamma=1, lam=1)
    assert found.shape == returns.shape == (2, 0)
    assert gae_of([NAN, 1], [1, NAN], [0, 0], gamma=1, lam=1) == [0, 0]


@pytest.mark.parametrize("factors", [{"gamma": 1.5, "lam": 1.0}, {"gamma": 1.0, "lam": -0.1}])
def test_factors_outside_the_unit_interval_are_refused(factors: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"algorithm\.(gamma|lam) is"):
        gae_of([0], [0], [1], **factors)


def test_reward_to_go_passes_masked_observations_without_decay() -> None:
    mask = rows([1, 1, 0, 0, 1, 1])
    _, returns = advantages.reinforce_pp(rows([0, 0, NAN, 7, 0, 1]), mask, gamma=1.0)
    assert returns[0].tolist() == [1, 1, 0, 0, 1, 1]
    _, returns = advantages.reinforce_pp(rows([0, 0, 1]), rows([1, 0, 1]), gamma=0.5)
    assert returns[0].tolist() == [0.5, 0, 1]


def test_reinforce_pp_whitens_the_returns_of_the_whole_batch() -> None:
    found, returns = advantages.reinforce_pp(rows([0, 1], [0, 3]), torch.ones(2, 2))
    assert returns.tolist() == [[1, 1], [3, 3]]
    assert found.flatten().tolist() == pytest.approx([-(0.75**0.5)] * 2 + [0.75**0.5] * 2)
    raw, returns = advantages.reinforce_pp(rows([0, 1], [0, 3]), torch.ones(2, 2), whiten=False)
    assert torch.equal(raw, returns)


def test_remax_subtracts_the_greedy_score_on_valid_tokens() -> None:
    found, returns = advantages.remax(
        rows([0, 1, NAN], [-0.5, 2, 0]), torch.tensor([1.0, 0.5]), rows([1, 1, 0], [1, 1, 1])
    )
    assert found.tolist() == [[0, 0, 0], [1, 1.5, -0.5]]
    assert returns.tolist() == [[1, 1, 0], [1.5, 2, 0]]


EIGHT = (1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("estimator", "right", "wrong"),
    [
        (lambda r, g, m: advantages.rloo(r, g, m), 0.7143, -0.4286),
        (lambda r, g, m: advantages.grpo(r, g, m), 1.2076, -0.7246),
        (lambda r, g, m: advantages.grpo(r, g, m, unbiased=False), 1.2910, -0.7746),
        (lambda r, g, m: advantages.dr_grpo(r, g, m), 0.625, -0.375),
    ],
    ids=["rloo", "grpo", "grpo_biased", "dr_grpo"],
)
def test_group_estimators_of_three_right_in_eight(estimator: Callable, right: float, wrong: float) -> None:
    found, returns = estimator(*scores(*EIGHT)[:1], one_group(8), scores(*EIGHT)[1])
    assert found.flatten().tolist() == pytest.approx([right] * 3 + [wrong] * 5, abs=5e-5)
    assert returns.flatten().tolist() == list(EIGHT)


def test_leave_one_out_std_of_equal_others_leaves_the_difference() -> None:
    rewards, mask = scores(1, 0, 0, 0)
    plain, _ = advantages.rloo(rewards, one_group(4), mask)
    assert plain.flatten().tolist() == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    scaled, _ = advantages.rloo(rewards, one_group(4), mask, normalize_std=True)
    assert scaled.flatten().tolist() == pytest.approx([1, -0.57735, -0.57735, -0.57735], abs=1e-5)


@pytest.mark.parametrize("jitter", [0.0, 3e-8])
def test_equal_float32_scores_have_no_std_to_divide_by(jitter: float) -> None:
    rewards_B1 = torch.tensor([[0.0], *[[0.35]] * 6, [0.35 + jitter]], dtype=torch.float32)
    found, _ = advantages.rloo(rewards_B1, one_group(8), torch.ones(8, 1), normalize_std=True)
    assert found[0].item() == pytest.approx(-0.35)
    assert found.abs().max() < 1.0
    equal = 1e4 * (torch.full((8, 1), 0.1) + torch.linspace(0, jitter, 8)[:, None])
    assert advantages.grpo(equal, one_group(8), torch.ones(8, 1), eps=0.0)[0].abs().max() < 1e-6


def test_small_but_real_differences_between_scores_are_kept() -> None:
    rewards, mask = scores(0.100, 0.101, 0.102)
    found, _ = advantages.grpo(rewards, one_group(3), mask, eps=0.0)
    assert found.flatten().tolist() == pytest.approx([-1, 0, 1])


def test_an_outlier_does_not_hide_the_differences_of_the_others() -> None:
    rewards, mask = scores(1e6, 0.1, 0.2, 0.3)
    found, _ = advantages.rloo(rewards, one_group(4), mask, normalize_std=True)
    assert found[0].item() == pytest.approx((1e6 - 0.2) / 0.1)


def test_groups_are_told_by_id_whatever_their_order() -> None:
    rewards, mask = scores(1, 10, 2, 20, 3, 30)
    groups_B = torch.tensor([7, -1, 7, -1, 7, -1])
    found, _ = advantages.grpo(rewards, groups_B, mask, unbiased=False, eps=0.0)
    assert found.flatten().tolist() == pytest.approx([-1.2247, -1.2247, 0, 0, 1.2247, 1.2247], abs=5e-5)


def test_every_group_is_compared_once_and_groups_may_differ_in_size() -> None:
    rewards, mask = scores(0, 2, 5, 5, 8, 4)
    groups_B = torch.tensor([0, 0, 1, 2, 2, 2])
    found, _ = advantages.dr_grpo(rewards, groups_B, mask)
    expected = [-1, 1, 5, 5 - 17 / 3, 8 - 17 / 3, 4 - 17 / 3]  # alone in its group a sample keeps its score
    assert found.flatten().tolist() == pytest.approx(expected)


def test_alone_in_its_group_a_sample_keeps_its_score() -> None:
    rewards, mask = scores(5, 7)
    for estimator in (advantages.grpo, advantages.dr_grpo, advantages.rloo):
        assert estimator(rewards, torch.tensor([0, 1]), mask)[0].flatten().tolist() == [5, 7]


def test_grpo_adds_its_floor_to_the_std() -> None:
    found, _ = advantages.grpo(*scores(0, 2)[:1], one_group(2), torch.ones(2, 1), eps=1.0, unbiased=False)
    assert found.flatten().tolist() == [-0.5, 0.5]


def test_a_group_of_two_has_no_std_of_others_to_divide_by() -> None:
    found, _ = advantages.rloo(*scores(0, 2)[:1], one_group(2), torch.ones(2, 1), normalize_std=True)
    assert found.flatten().tolist() == [-2, 2]


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="values has shape"):
        advantages.gae(torch.ones(2, 3), torch.ones(2, 1), torch.ones(2, 3), gamma=1, lam=1)
    for estimate in (advantages.rewards_to_go, lambda r, m: advantages.grpo(r, one_group(2), m)):
        with pytest.raises(ValueError, match="rewards has shape"):
            estimate(torch.ones(2, 1), torch.ones(2, 3))


def test_a_sample_without_a_valid_token_counts_in_no_group() -> None:
    rewards, mask = rows([1.0], [0.0], [NAN]), rows([1], [1], [0])
    for estimator in (advantages.grpo, advantages.dr_grpo, advantages.rloo):
        found, _ = estimator(rewards, one_group(3), mask)
        alone, _ = estimator(rewards[:2], one_group(2), mask[:2])
        assert found.tolist() == [*alone.tolist(), [0.0]]


def test_outcome_advantage_sums_the_rewards_of_a_sample_and_covers_its_valid_tokens() -> None:
    rewards = poisoned(rows([-0.1, 0.0, 1.0], [-0.2, 0.0, 0.0]), rows([1, 0, 1], [1, 1, 0])).detach()
    found, returns = advantages.dr_grpo(rewards, one_group(2), rows([1, 0, 1], [1, 1, 0]))
    assert found.flatten().tolist() == pytest.approx([0.55, 0, 0.55, -0.55, -0.55, 0])
    assert returns.flatten().tolist() == pytest.approx([0.9, 0, 0.9, -0.2, -0.2, 0])

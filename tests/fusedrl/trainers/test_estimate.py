from typing import Any

import pytest
import torch

from fusedrl.config.schema import AlgorithmConfig, RewardShapingConfig
from fusedrl.rl import advantages
from fusedrl.rl.normalize import whiten
from fusedrl.trainers.estimate import BASELINE, estimate, needs_baseline

MASK_BR = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]])
SCORES_B = torch.tensor([1.0, 0.0, 3.0, 2.0])
REWARDS_BR = torch.zeros(4, 3).scatter(1, MASK_BR.sum(1, keepdim=True) - 1, SCORES_B[:, None])


def of(name: str, *, inferred: dict[str, torch.Tensor] | None = None, **keys: Any) -> torch.Tensor:
    algorithm = AlgorithmConfig(adv_estimator=name, **keys)
    return estimate(REWARDS_BR, MASK_BR, inferred or {}, algorithm=algorithm, n=2)[0]


def test_grpo_and_its_kin_compare_the_neighbours_of_one_prompt() -> None:
    first_B = of("grpo", norm_adv_by_std_in_grpo=False)[:, 0]
    assert first_B.tolist() == [0.5, -0.5, 0.5, -0.5]
    half = 0.5**0.5
    assert of("grpo")[:, 0].tolist() == pytest.approx([half, -half, half, -half], abs=1e-5)
    assert of("rloo")[:, 0].tolist() == [1.0, -1.0, 1.0, -1.0]


def test_remax_subtracts_the_greedy_response_s_score() -> None:
    assert needs_baseline(AlgorithmConfig(adv_estimator="remax"))
    assert not needs_baseline(AlgorithmConfig(adv_estimator="rloo"))
    baseline_B1 = torch.tensor([[0.25], [0.25], [4.0], [4.0]])
    assert of("remax", inferred={BASELINE: baseline_B1})[:, 0].tolist() == [0.75, -0.25, -1.0, -2.0]


def test_reinforce_discounts_and_whitens_where_asked() -> None:
    plain_BR = of("reinforce_plus_plus", gamma=0.5, whiten_advantages=False)
    assert plain_BR.tolist() == [[0.5, 1.0, 0.0], [0.0, 0.0, 0.0], [0.75, 1.5, 3.0], [1.0, 2.0, 0.0]]
    assert torch.equal(of("reinforce_plus_plus", gamma=0.5), whiten(plain_BR, MASK_BR))


def test_limits_of_scores_hold_for_the_greedy_response_s_too() -> None:
    baseline_B1 = torch.tensor([[0.25], [0.25], [40.0], [40.0]])
    limits = RewardShapingConfig(clip_range=[-1.0, 3.0])
    found_BR = of("remax", inferred={BASELINE: baseline_B1}, reward_shaping=limits)
    assert found_BR[:, 0].tolist() == [0.75, -0.25, 0.0, -1.0]


def test_rloo_is_whitened_where_asked() -> None:
    plain_BR = of("rloo")
    assert torch.equal(of("rloo", whiten_rloo=True), whiten(plain_BR, MASK_BR))
    assert torch.equal(of("rloo", whiten_rloo=True, whiten_unbiased=False), whiten(plain_BR, MASK_BR, unbiased=False))
    assert torch.equal(of("rloo", whiten_rloo=True, whiten_advantages=False), plain_BR)


def test_gae_takes_the_critic_s_values_and_whitens_where_asked() -> None:
    values_BR = torch.arange(12.0).view(4, 3) / 10
    plain_BR, _ = advantages.gae(REWARDS_BR, values_BR, MASK_BR, gamma=0.9, lam=0.8)
    keys: dict[str, Any] = {"gamma": 0.9, "lam": 0.8, "inferred": {"values": values_BR}}
    assert torch.equal(of("gae", whiten_advantages=False, **keys), plain_BR)
    assert torch.equal(of("gae", **keys), whiten(plain_BR, MASK_BR))

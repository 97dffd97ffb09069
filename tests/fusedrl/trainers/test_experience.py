from dataclasses import replace

import pytest
import torch

from fusedrl.config.schema import AlgorithmConfig
from fusedrl.config.schema.algorithm import RolloutCorrectionConfig
from fusedrl.trainers.experience import WEIGHTS, Experience, make_experience
from tests.distributed.trainer_jobs import random_samples


def experience(*, kl_coef: float = 0.0, with_reference: bool = True, **algorithm: object) -> Experience:
    samples = random_samples(6)
    logp_BR = torch.full(samples.mask_BR.shape, -1.0)
    drawn_BR = torch.linspace(-2.0, 0.0, logp_BR.numel()).view(logp_BR.shape)
    samples = replace(samples, rollout_logp_BR=drawn_BR)
    found = {"logp": logp_BR, "values": torch.full_like(logp_BR, 0.25)}
    if with_reference:
        found["ref_logp"] = logp_BR - 0.5
    config = AlgorithmConfig(**algorithm)  # type: ignore[arg-type]
    return make_experience(samples, torch.arange(6.0), found, algorithm=config, kl_coef=kl_coef)


def test_score_sits_on_the_last_token() -> None:
    made = experience(with_reference=False)
    last_B = made.samples.response_lengths_B - 1
    assert torch.equal(made.rewards_BR.gather(1, last_B[:, None])[:, 0], torch.arange(6.0))
    assert torch.equal(made.rewards_BR.sum(1), torch.arange(6.0))


def test_kl_is_subtracted_only_where_it_is_part_of_the_reward() -> None:
    without = experience(kl_coef=0.1, use_kl_in_reward=False)
    having = experience(kl_coef=0.1, use_kl_in_reward=True)
    assert without.kl == pytest.approx(0.5)
    assert having.kl == pytest.approx(0.5)
    expected_BR = -0.1 * 0.5 * having.samples.mask_BR.float()
    torch.testing.assert_close(having.rewards_BR - without.rewards_BR, expected_BR)


def test_advantages_are_whitened_over_valid_tokens_of_the_whole_batch() -> None:
    made = experience()
    valid = made.advantages_BR[made.samples.mask_BR].double()
    assert float(valid.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(valid.std()) == pytest.approx(1.0, abs=1e-6)
    assert not bool(made.advantages_BR[~made.samples.mask_BR].any())
    plain = experience(whiten_advantages=False)
    torch.testing.assert_close(plain.advantages_BR + plain.values_BR, plain.returns_BR)


def test_a_number_that_is_not_finite_stops_before_it_spreads() -> None:
    samples = random_samples(4)
    logp_BR = torch.zeros(samples.mask_BR.shape)
    logp_BR[2, 0] = float("nan")
    with pytest.raises(ValueError, match="logp of this step's samples holds NaN"):
        make_experience(
            samples, torch.zeros(4), {"logp": logp_BR, "values": logp_BR * 0}, algorithm=AlgorithmConfig(), kl_coef=0.0
        )
    padded_BR = torch.zeros(samples.mask_BR.shape).masked_fill(~samples.mask_BR, float("nan"))
    made = make_experience(
        samples, torch.ones(4), {"logp": padded_BR, "values": padded_BR}, algorithm=AlgorithmConfig(), kl_coef=0.0
    )
    assert bool(torch.isfinite(made.advantages_BR).all())


def test_weights_compare_the_trainer_with_the_policy_that_drew_the_tokens() -> None:
    """Trainer's log-probability -1 everywhere."""
    plain = experience()
    assert plain.weights_BR is None
    assert WEIGHTS not in plain.fields()
    by_token = experience(rollout_correction=RolloutCorrectionConfig("token", 1.5))
    mask_BR, drawn_BR = by_token.samples.mask_BR, by_token.samples.rollout_logp_BR
    expected_BR = (-1.0 - drawn_BR).exp().clamp(max=1.5).where(mask_BR, torch.zeros(()))
    torch.testing.assert_close(by_token.fields()[WEIGHTS], expected_BR)
    assert len(expected_BR[mask_BR].unique()) > 2
    found, valid = by_token.metrics(), expected_BR[mask_BR]
    for name, value in {"mean": valid.mean(), "min": valid.min(), "max": valid.max()}.items():
        assert found[f"rollout_corr/rollout_is_{name}"] == pytest.approx(float(value))
    assert {name: value for name, value in found.items() if not name.startswith("rollout_corr")} == plain.metrics()
    by_response = experience(rollout_correction=RolloutCorrectionConfig("sequence", 100.0)).fields()[WEIGHTS]
    total_B = torch.where(mask_BR, -1.0 - drawn_BR, 0.0).sum(1).exp().clamp(max=100.0)
    torch.testing.assert_close(by_response[:, 0], total_B)

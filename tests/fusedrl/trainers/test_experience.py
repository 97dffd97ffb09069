import pytest
import torch

from fusedrl.config.schema import AlgorithmConfig
from fusedrl.trainers.experience import Experience, make_experience
from tests.distributed.trainer_jobs import random_samples


def experience(*, kl_coef: float = 0.0, with_reference: bool = True, **algorithm: object) -> Experience:
    samples = random_samples(6)
    logp_BR = torch.full(samples.mask_BR.shape, -1.0)
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

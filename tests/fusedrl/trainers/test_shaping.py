from dataclasses import replace

import pytest
import torch

from fusedrl.config.schema import AlgorithmConfig, RewardShapingConfig
from fusedrl.config.schema.algorithm import OverlongBufferConfig
from fusedrl.trainers.experience import make_experience
from fusedrl.trainers.shaping import shaped
from tests.distributed.trainer_jobs import random_samples

SAMPLES = replace(random_samples(4), ended_B=torch.tensor([True, False, True, True]))  # 1, 2, 3 and 4 of 6 tokens
SCORES_B = torch.tensor([1.0, 2.0, 3.0, 40.0])


def test_scores_are_penalised_then_limited_then_normalised() -> None:
    buffer = OverlongBufferConfig(len=4, penalty_factor=2.0)
    config = RewardShapingConfig(overlong_buffer=buffer, missing_eos_penalty=0.25)
    penalised = [1.0, 2.0 - 0.25, 3.0 - 0.5, 40.0 - 1.0]
    assert shaped(SCORES_B, SAMPLES, config).tolist() == pytest.approx(penalised)
    limited = torch.tensor([*penalised[:3], 10.0])
    config = replace(config, clip_range=[-10.0, 10.0])
    assert shaped(SCORES_B, SAMPLES, config).tolist() == pytest.approx(limited.tolist())
    config = replace(config, normalize=True)
    assert shaped(SCORES_B, SAMPLES, config).tolist() == pytest.approx(
        ((limited - limited.mean()) / limited.std()).tolist()
    )


def test_without_a_wish_scores_stay_the_same_object() -> None:
    assert shaped(SCORES_B, SAMPLES, RewardShapingConfig()) is SCORES_B


def test_rewards_hold_the_shaped_score_and_the_log_the_plain_one() -> None:
    algorithm = AlgorithmConfig(adv_estimator="rloo", reward_shaping=RewardShapingConfig(clip_range=[-10.0, 10.0]))
    logp_BR = torch.zeros(SAMPLES.mask_BR.shape)
    made = make_experience(SAMPLES, SCORES_B, {"logp": logp_BR}, algorithm=algorithm, kl_coef=0.0, n=2)
    assert made.rewards_BR.sum(1).tolist() == [1.0, 2.0, 3.0, 10.0]
    assert made.metrics()["critic/score/max"] == 40.0
    assert made.metrics()["critic/rewards/max"] == 10.0

import pytest
import torch

from fusedrl.trainers.report import mean_of, mismatch
from tests.distributed.trainer_jobs import random_samples


def test_each_metric_is_averaged_over_the_updates_that_have_it() -> None:
    assert mean_of([{"a": 1.0, "b": 5.0}, {"a": 3.0}]) == {"a": 2.0, "b": 5.0}


def test_engine_and_trainer_that_agree_have_no_mismatch() -> None:
    samples = random_samples(6)
    same = mismatch(samples.rollout_logp_BR, samples)
    assert same["training/rollout_probs_diff_max"] == 0.0
    assert same["training/rollout_actor_probs_pearson_corr"] == 1.0
    off = mismatch(torch.where(samples.mask_BR, samples.rollout_logp_BR - 0.1, float("nan")), samples)
    expected = float(torch.tensor(-1.0).exp() - torch.tensor(-1.1).exp())
    assert off["training/rollout_probs_diff_mean"] == pytest.approx(expected, rel=1e-6)

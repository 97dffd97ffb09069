import statistics

import pytest
import torch

from fusedrl.rl.statistics import critic_metrics, explained_variance, length_metrics, summary
from tests.fusedrl.rl.reference import NAN, normal, poisoned, ragged_batch, rows


def test_summary_covers_valid_entries_only() -> None:
    found = summary(rows([-5, NAN, -1], [NAN, -3, float("inf")]), rows([1, 0, 1], [0, 1, 0]), name="x")
    assert found == {"x/mean": -3.0, "x/max": -1.0, "x/min": -5.0}
    assert summary(rows([NAN]), rows([0]), name="x") == {"x/mean": 0.0, "x/max": 0.0, "x/min": 0.0}


def test_mean_advantage_is_over_tokens_that_count() -> None:
    assert summary(rows([1, 2, 0, 0], [3, 0, 0, 0]), rows([1, 1, 0, 0], [1, 0, 0, 0]), name="a")["a/mean"] == 2.0


def test_explained_variance_equals_its_definition_on_valid_tokens() -> None:
    generator, mask_BT = ragged_batch(samples=5, tokens=8, seed=20)
    returns_BT = normal(mask_BT, generator)
    values_BT = returns_BT + 0.5 * normal(mask_BT, generator)
    errors, targets = (returns_BT - values_BT)[mask_BT].tolist(), returns_BT[mask_BT].tolist()
    expected = 1 - statistics.variance(errors) / statistics.variance(targets)
    found = explained_variance(poisoned(values_BT, mask_BT), poisoned(returns_BT, mask_BT), mask_BT)
    assert found == pytest.approx(expected, rel=1e-12)


def test_explained_variance_is_one_for_perfect_values_and_zero_for_constant_returns() -> None:
    returns = rows([1, 2, 4])
    assert explained_variance(returns, returns, rows([1, 1, 1])) == 1.0
    assert explained_variance(returns + 7, returns, rows([1, 1, 1])) == 1.0  # a bias is no variance
    assert explained_variance(returns, rows([3, 3, 3]), rows([1, 1, 1])) == 0.0
    assert explained_variance(returns, returns, rows([0, 0, 0])) == 0.0


def test_critic_metrics_use_the_names_of_verl() -> None:
    mask_BT = rows([1, 1, 0], [1, 0, 0], [0, 0, 0])
    nothing = [NAN, NAN, NAN]
    found = critic_metrics(
        torch.tensor([1.0, 0.0, 2.0]),
        rows([-0.1, 1.0, NAN], [-0.5, NAN, NAN], nothing),
        rows([1, 2, NAN], [3, NAN, NAN], nothing),
        rows([1, 3, NAN], [5, NAN, NAN], nothing),
        mask_BT,
        values_BT=rows([0, 1, NAN], [2, NAN, NAN], nothing),
    )
    keys = {
        f"critic/{part}/{how}"
        for part in ("score", "rewards", "advantages", "returns", "values")
        for how in ("mean", "max", "min")
    }
    assert set(found) == keys | {"critic/vf_explained_var"}
    assert found["critic/score/mean"] == 1.0
    assert found["critic/rewards/mean"] == pytest.approx(0.2)  # sums per sample: 0.9 and -0.5
    assert found["critic/advantages/mean"] == 2.0
    assert found["critic/returns/max"] == 5.0
    assert found["critic/values/min"] == 0.0


def test_critic_metrics_without_a_critic_name_no_values() -> None:
    one = torch.ones(1, 1)
    assert not any("v" in key.split("/")[1][:1] for key in critic_metrics(torch.ones(1), one, one, one, one))


def test_length_metrics_tell_how_many_hit_the_limit() -> None:
    found = length_metrics(torch.tensor([3, 8, 8, 5]), name="response_length", limit=8)
    assert found == {
        "response_length/mean": 6.0,
        "response_length/max": 8.0,
        "response_length/min": 3.0,
        "response_length/clip_ratio": 0.5,
    }


def test_mean_of_many_float32_values_is_exact() -> None:
    x = torch.full((1, 3_000_001), 16777216.0)
    x[0, 0] = 3.0
    assert summary(x, torch.ones_like(x), name="x")["x/mean"] == (3.0 + 3_000_000 * 16777216.0) / 3_000_001


def test_lengths_of_no_sample_are_zero() -> None:
    found = length_metrics(torch.zeros(0, dtype=torch.int64), name="n", limit=8)
    assert found == {"n/mean": 0.0, "n/max": 0.0, "n/min": 0.0, "n/clip_ratio": 0.0}


def test_values_and_returns_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="values has shape"):
        explained_variance(torch.ones(1), torch.ones(2, 1), torch.ones(2, 1))

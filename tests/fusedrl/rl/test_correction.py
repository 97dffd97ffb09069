import math

import pytest
import torch

from fusedrl.rl.correction import agreement, rollout_weights
from tests.fusedrl.rl.reference import NAN, rows

TRAINER = rows([math.log(4), 0, math.log(0.25), NAN], [math.log(2), NAN, NAN, NAN])
ROLLOUT = rows([0, 0, 0, NAN], [0, NAN, NAN, 3])
MASK = rows([1, 1, 1, 0], [1, 0, 0, 0])


@pytest.mark.parametrize(
    ("mode", "level", "expected"),
    [
        ("truncate", "token", [[2, 1, 0.25, 0], [2, 0, 0, 0]]),
        ("mask", "token", [[0, 1, 0, 0], [2, 0, 0, 0]]),
        ("truncate", "sequence", [[1, 1, 1, 0], [2, 0, 0, 0]]),
        ("truncate", "geometric", [[1, 1, 1, 0], [2, 0, 0, 0]]),
        ("mask", "sequence", [[1, 1, 1, 0], [2, 0, 0, 0]]),
    ],
)
def test_weights_are_the_bounded_ratio_of_trainer_to_rollout(mode: str, level: str, expected: list) -> None:
    found = rollout_weights(TRAINER, ROLLOUT, MASK, mode=mode, level=level, upper=2.0 + 1e-12, lower=0.5)
    torch.testing.assert_close(found, rows(*expected), rtol=1e-9, atol=1e-9)


def test_bounds_themselves_are_inside() -> None:
    trainer = rows([0.0, -1.0, 1.0])
    low, high = float(trainer[0, 1].exp()), float(trainer[0, 2].exp())
    assert rollout_weights(trainer, rows([0, 0, 0]), rows([1, 1, 1]), mode="mask", lower=low, upper=high).all()
    assert rollout_weights(trainer, rows([0, 0, 0]), rows([1, 1, 1]), mode="mask", lower=0.0).tolist()[0][1] == low


def test_shapes_that_would_broadcast_are_refused() -> None:
    for function in (rollout_weights, agreement):
        with pytest.raises(ValueError, match="rollout_logp has shape"):
            function(torch.zeros(2, 3), torch.zeros(3), torch.ones(2, 3))


def test_sequence_level_is_the_product_and_geometric_its_root() -> None:
    trainer, zeros, ones = rows([math.log(1.2), math.log(1.5)]), rows([0, 0]), rows([1, 1])
    product = rollout_weights(trainer, zeros, ones, level="sequence", upper=10)
    assert product[0].tolist() == pytest.approx([1.8, 1.8])
    root = rollout_weights(trainer, zeros, ones, level="geometric", upper=10)
    assert root[0].tolist() == pytest.approx([math.sqrt(1.8)] * 2)


def test_equal_engines_weigh_one_and_carry_no_gradient() -> None:
    logp = rows([-1.0, -2.0]).requires_grad_()
    weights = rollout_weights(logp, logp.detach(), rows([1, 1]))
    assert weights.tolist() == [[1, 1]]
    assert not weights.requires_grad


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "cut"}, "mode is 'cut': take one of truncate, mask"),
        ({"level": "word"}, "level is 'word': take one of token, sequence, geometric"),
        ({"upper": 0.9}, "bounds are 0.5..0.9: they must enclose 1"),
        ({"lower": 1.1}, "bounds are 1.1..2.0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rollout_weights(TRAINER, ROLLOUT, MASK, **options)


def test_agreement_reports_probabilities_of_valid_tokens() -> None:
    trainer = rows([math.log(0.5), math.log(0.2), NAN, math.log(0.9)])
    rollout = rows([math.log(0.4), math.log(0.2), NAN, math.log(0.7)])
    found = agreement(trainer, rollout, rows([1, 1, 0, 1]))
    assert found["training/rollout_probs_diff_mean"] == pytest.approx(0.1)
    assert found["training/rollout_probs_diff_max"] == pytest.approx(0.2)
    assert found["training/rollout_probs_diff_std"] == pytest.approx(0.1)
    assert found["training/rollout_logprobs_diff_max"] == pytest.approx(math.log(0.9 / 0.7))
    assert found["training/rollout_logprobs_diff_mean"] == pytest.approx((math.log(1.25) + math.log(0.9 / 0.7)) / 3)
    pairs = torch.tensor([[0.5, 0.2, 0.9], [0.4, 0.2, 0.7]], dtype=torch.float64)
    assert found["training/rollout_actor_probs_pearson_corr"] == pytest.approx(torch.corrcoef(pairs)[0, 1].item())


def test_agreement_of_constants_and_of_nothing_is_defined() -> None:
    constant = agreement(rows([-1, -1]), rows([-1, -1]), rows([1, 1]))
    assert constant["training/rollout_actor_probs_pearson_corr"] == 1.0
    assert agreement(rows([-1, -1]), rows([-2, -3]), rows([1, 1]))["training/rollout_actor_probs_pearson_corr"] == 0.0
    assert agreement(rows([NAN]), rows([NAN]), rows([0]))["training/rollout_probs_diff_mean"] == 0.0

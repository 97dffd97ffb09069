import pytest
import torch

from fusedrl.rl.shaping import (
    clip_scores,
    informative,
    missing_end_penalty,
    normalize_scores,
    overlong_penalty,
    place_scores,
    rewards_with_kl,
)
from tests.fusedrl.rl.reference import NAN, rows


def test_score_sits_on_the_last_valid_token() -> None:
    mask_BT = rows([1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1])
    placed = place_scores(torch.tensor([1.0, 2.0, 3.0, 0.0]), mask_BT)
    assert placed.tolist() == [[0, 0, 1, 0], [0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 0]]


def test_score_sits_on_the_end_token_though_padding_has_the_same_id() -> None:
    tokens_BT, pad = torch.tensor([[5, 6, 0, 0, 0]]), 0  # response [t, t, eos] and padding, pad == eos
    mask_BT = torch.arange(5)[None] < 3
    assert tokens_BT[0, 2] == pad
    assert place_scores(torch.ones(1), mask_BT).tolist() == [[0, 0, 1, 0, 0]]


def test_a_sample_without_valid_tokens_has_no_reward() -> None:
    assert place_scores(torch.tensor([5.0]), torch.zeros(1, 3)).tolist() == [[0, 0, 0]]
    assert place_scores(torch.tensor([5.0]), torch.zeros(1, 0)).shape == (1, 0)


def test_one_score_a_sample() -> None:
    with pytest.raises(ValueError, match=r"\(3,\) scores for 2 samples"):
        place_scores(torch.zeros(3), torch.ones(2, 4))


def test_rewards_take_the_kl_penalty_and_the_kl_itself_stays_for_the_log() -> None:
    rewards, kl = rewards_with_kl(
        torch.ones(1), rows([0.5, 0.7, 0.9]), rows([0.4, 0.5, 0.6]), torch.ones(1, 3), coef=0.05, kind="k1"
    )
    assert kl[0].tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert rewards[0].tolist() == pytest.approx([-0.005, -0.01, 0.985])


def test_a_limit_holds_for_the_kl_of_every_token_and_kind() -> None:
    logp, ref, mask = rows([0.0, -30.0, 0.0]), rows([-30.0, 0.0, -1.0]), torch.ones(1, 3)
    for kind, ordinary in (("k1", 1.0), ("k2", 0.5), ("abs", 1.0)):
        rewards, kl = rewards_with_kl(torch.zeros(1), logp, ref, mask, coef=0.5, kind=kind, clip=10.0)
        low = -10.0 if kind == "k1" else 10.0
        assert kl.tolist() == [[10.0, low, ordinary]]
        assert rewards.tolist() == [[-5.0, -low / 2, -ordinary / 2]]


def test_nan_of_masked_tokens_reaches_neither_rewards_nor_kl() -> None:
    rewards, kl = rewards_with_kl(torch.ones(1), rows([1, NAN]), rows([1, NAN]), rows([1, 0]), coef=0.1, kind="k3")
    assert rewards.tolist() == [[1, 0]]
    assert kl.tolist() == [[0, 0]]


def test_float64_is_preserved() -> None:
    assert place_scores(torch.ones(1, dtype=torch.float64), torch.ones(1, 2)).dtype == torch.float64
    assert place_scores(torch.ones(1, dtype=torch.int64), torch.ones(1, 2)).dtype == torch.float32


def test_overlong_penalty_falls_linearly_inside_the_buffer() -> None:
    lengths_B = torch.tensor([1, 80, 85, 90, 100, 120])
    penalty = overlong_penalty(lengths_B, max_length=100, buffer=20, factor=2.0)
    assert penalty.tolist() == pytest.approx([0, 0, -0.5, -1, -2, -2])


@pytest.mark.parametrize("buffer", [0, 101])
def test_overlong_buffer_must_fit_the_response(buffer: int) -> None:
    with pytest.raises(ValueError, match=rf"overlong_buffer.len is {buffer}"):
        overlong_penalty(torch.tensor([1]), max_length=100, buffer=buffer)


def test_a_response_without_its_end_pays() -> None:
    assert missing_end_penalty(torch.tensor([True, False]), penalty=1.5).tolist() == [0.0, -1.5]


def test_scores_stay_within_their_limits() -> None:
    assert clip_scores(torch.tensor([-20, 3, 11]), low=-10.0, high=10.0).tolist() == [-10.0, 3.0, 10.0]
    with pytest.raises(ValueError, match=r"clip_range is \[1.0, 1.0\]"):
        clip_scores(torch.zeros(1), low=1.0, high=1.0)


def test_normalized_scores_have_mean_zero_and_deviation_one_and_equal_ones_are_zero() -> None:
    assert normalize_scores(torch.tensor([2.0, 4.0, 6.0])).tolist() == pytest.approx([-1, 0, 1])
    assert normalize_scores(torch.full((5,), 0.7)).abs().max() < 1e-3


def test_groups_of_equal_scores_are_not_informative() -> None:
    scores_B = torch.tensor([0.1, 1.0, 0.1, 0.0, 0.1, 5.0])
    groups_B = torch.tensor([0, 1, 0, 1, 0, 2])
    assert informative(scores_B, groups_B).tolist() == [False, True, False, True, False, False]

"""Each statistic against its definition: all subsets, all sequences of draws."""

from fractions import Fraction
from itertools import combinations, product
from math import prod
from statistics import fmean, pstdev

import pytest

from fusedrl.trainers.repeats import best_of, majority, mean, pass_at_k, powers_of_two, spread, worst_of

VALUES = [0.25, -1.0, 0.25, 2.0]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_response(n: int) -> None:
    for right in range(n + 1):
        for k in range(1, n + 1):
            subsets = list(combinations([1] * right + [0] * (n - right), k))
            assert pass_at_k(n, right, k) == float(Fraction(sum(map(max, subsets)), len(subsets)))


def test_pass_at_k_of_many_responses_is_rounded_once() -> None:
    n, right, k = 1000, 3, 400
    missed = prod((Fraction(n - right - i, n - i) for i in range(k)), start=Fraction(1))
    assert pass_at_k(n, right, k) == float(1 - missed)
    assert pass_at_k(100_000, 1, 1) == 1e-5
    assert pass_at_k(2000, 1500, 501) == 1.0  # fewer wrong ones than are drawn


@pytest.mark.parametrize(("n", "right", "k"), [(4, 2, 5), (4, 2, 0), (4, 5, 1), (4, -1, 1)])
def test_pass_at_k_of_what_cannot_be_drawn_is_refused(n: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{k} of {n} responses, {right} of them right"):
        pass_at_k(n, right, k)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_best_and_worst_are_the_means_over_all_sequences_of_draws(k: int) -> None:
    draws = list(product(VALUES, repeat=k))
    assert best_of(VALUES, k) == float(sum(map(Fraction, map(max, draws))) / len(draws))
    assert worst_of(VALUES, k) == float(sum(map(Fraction, map(min, draws))) / len(draws))


def test_equal_values_are_what_they_are_however_many() -> None:
    assert best_of([0.1] * 7, 3) == worst_of([0.1] * 7, 3) == 0.1
    assert spread([0.1] * 7) == 0.0
    assert mean([0.1] * 10) == 0.1


def test_spread_is_that_of_the_responses_themselves() -> None:
    assert spread(VALUES) == pytest.approx(pstdev(VALUES), rel=1e-15)
    assert mean(VALUES) == fmean(VALUES)


@pytest.mark.parametrize(
    ("answers", "value"),
    [
        (["7", "8", "7", "9"], 0.25),
        (["8", "7", "9", "7"], 0.5),  # the mean of the responses that give it
        (["7", "8", "7", "8"], (0.25 + 0.5) / 2),  # a tie is the mean of both answers
        ([None, None, "7", None], 0.25),
        ([None, None, None, None], 0.375),
    ],
)
def test_majority_takes_the_most_frequent_answer(answers: list[str | None], value: float) -> None:
    assert majority([0.25, -1.0, 0.25, 2.0], answers) == value
    pairs = sorted(zip([0.25, -1.0, 0.25, 2.0], answers, strict=True), key=str)
    assert majority(*zip(*pairs, strict=True)) == value


@pytest.mark.parametrize(
    ("n", "ks"), [(1, []), (2, [2]), (3, [2, 3]), (4, [2, 4]), (5, [2, 4, 5]), (16, [2, 4, 8, 16])]
)
def test_powers_of_two_end_with_n(n: int, ks: list[int]) -> None:
    assert powers_of_two(n) == ks

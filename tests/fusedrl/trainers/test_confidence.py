from math import sqrt

import pytest

from fusedrl.trainers.confidence import Interval, bootstrap, interval, wilson

OPTIONS = {"confidence": 0.95, "draws": 500, "seed": 3}


@pytest.mark.parametrize(("right", "trials"), [(1, 10), (5, 10), (30, 200)])
def test_wilson_s_ends_are_the_shares_that_the_test_just_keeps(right: int, trials: int) -> None:
    """By its definition: |observed - p| is z standard errors of p."""
    found, z = wilson(right, trials, confidence=0.95), 1.959963984540054
    for end in (found.low, found.high):
        assert abs(right / trials - end) == pytest.approx(z * sqrt(end * (1 - end) / trials), rel=1e-12)
    assert found.low < right / trials < found.high


def test_none_or_all_right_have_a_width_and_an_exact_end() -> None:
    for trials in range(1, 60):
        none, all_right = wilson(0, trials, confidence=0.9), wilson(trials, trials, confidence=0.9)
        assert none.low == 0.0 < none.high
        assert all_right.high == 1.0 > all_right.low


def test_a_bootstrap_is_the_same_for_its_seed_and_narrows_with_prompts() -> None:
    few, many = [0.25, 0.5, 1.0, 0.0], [0.25, 0.5, 1.0, 0.0] * 50
    found = bootstrap(few, **OPTIONS)
    assert found == bootstrap(few, **OPTIONS) != bootstrap(few, **{**OPTIONS, "seed": 4})
    narrow = bootstrap(many, **OPTIONS)
    assert found.low < narrow.low < 0.4375 < narrow.high < found.high
    # about z standard errors, as the normal approximation has it
    assert narrow.high - narrow.low == pytest.approx(2 * 1.96 * sqrt(0.13671875 / 200), rel=0.15)


def test_drawing_in_parts_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bootstrap([0.25, 0.5, 1.0], **OPTIONS)
    monkeypatch.setattr("fusedrl.trainers.confidence.CHUNK", 100)
    assert bootstrap([0.25, 0.5, 1.0], **OPTIONS) == whole


def test_shares_of_prompts_are_binomial_and_all_else_is_drawn() -> None:
    assert interval([0.0, 1.0, 1.0], **OPTIONS) == wilson(2, 3, confidence=0.95)
    assert interval([0.0, 1.0, 1.0], **OPTIONS, may_share=False) == bootstrap([0.0, 1.0, 1.0], **OPTIONS)
    assert interval([0.0, 0.5, 1.0], **OPTIONS) == bootstrap([0.0, 0.5, 1.0], **OPTIONS)


def test_one_prompt_tells_nothing_of_others_unless_it_is_right_or_wrong() -> None:
    assert interval([0.5], **OPTIONS) is None
    assert isinstance(interval([1.0], **OPTIONS), Interval)

import pytest

from fusedrl.rewards.combine import part_means, weighted_scores


def test_the_score_is_the_weighted_sum_not_the_plain_one() -> None:
    assert weighted_scores({"right": [1.0], "format": [0.0]}, weights={"right": 0.7, "format": 0.3}) == [0.7]


def test_each_sample_has_its_own_sum() -> None:
    parts = {"a": [1.0, 0.0, 2.0], "b": [0.0, 1.0, 1.0]}
    assert weighted_scores(parts, weights={"a": 2.0, "b": -1.0}) == [2.0, -1.0, 3.0]


@pytest.mark.parametrize(
    ("parts", "weights", "message"),
    [
        ({"a": [1.0]}, {"a": 1.0, "b": 1.0}, r"name different parts \(b\)"),
        ({"a": [1.0], "c": [1.0]}, {"a": 1.0}, r"name different parts \(c\)"),
        ({"a": [1.0], "b": [1.0, 2.0]}, {"a": 1.0, "b": 1.0}, r"\(a: 1, b: 2\)"),
        ({"a": [1.0]}, {"a": float("nan")}, "make them finite"),
        ({}, {}, "name at least one"),
    ],
)
def test_parts_and_weights_must_match(parts: dict, weights: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        weighted_scores(parts, weights=weights)


def test_means_of_parts_are_over_the_results_that_have_them() -> None:
    entries = [{"part/a": 1.0, "acc": 1.0}, {}, {"part/a": 0.0, "part/b": 3.0}]
    assert part_means(entries) == {"reward/a/mean": 0.5, "reward/b/mean": 3.0}
    assert part_means([]) == {}

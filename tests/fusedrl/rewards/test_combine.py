import pytest

from fusedrl.rewards.combine import weighted_scores


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

"""Each distribution is what its name says, and drawn by seed."""

import numpy as np
import pytest

from fusedrl.bench.lengths import DISTRIBUTIONS, LIMIT


def draw(name: str, *, seed: int = 0, count: int = 200_000, median: int = 25) -> np.ndarray:
    return DISTRIBUTIONS[name](median, count=count, random=np.random.default_rng(seed))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_lengths_are_whole_positive_limited_and_the_seeds(name: str) -> None:
    lengths = draw(name)
    assert lengths.dtype == np.int64
    assert lengths.min() >= 1
    assert lengths.max() <= LIMIT * 25
    assert np.array_equal(lengths, draw(name))
    assert np.array_equal(lengths, draw(name, seed=1)) == (name == "fixed")


@pytest.mark.parametrize("name", ["long_tailed", "bimodal"])
def test_the_longest_of_a_thousand_is_above_ten_medians(name: str) -> None:
    lengths = draw(name)
    assert np.median(lengths) == pytest.approx(25, rel=0.05)
    assert np.quantile(lengths, 0.999) > 10 * np.median(lengths)


def test_bimodal_leaves_the_middle_empty() -> None:
    lengths = draw("bimodal")
    assert np.mean((lengths > 50) & (lengths < 150)) < 0.001
    assert np.mean(lengths >= 150) == pytest.approx(0.05, abs=0.005)


def test_fixed_lengths_are_alike() -> None:
    assert set(draw("fixed").tolist()) == {38}

"""Lengths of samples: the same for a seed, log-normal, cut."""

import math
from statistics import mean, stdev

import pytest

from schedules.transformer.lengths import microbatch_lengths


def lengths(microbatches=4, samples=2, median=1000, spread=0.6, longest=10**9, seed=0):
    return microbatch_lengths(microbatches, samples=samples, median=median, spread=spread, longest=longest, seed=seed)


def test_without_spread_all_are_the_median():
    assert lengths(spread=0.0) == ((1000, 1000),) * 4


def test_a_seed_names_the_lengths():
    """Literal numbers: the committed problems depend on them."""
    assert lengths() == lengths() != lengths(seed=1)
    assert lengths(microbatches=2) == lengths()[:2]
    assert lengths(microbatches=2) == ((1836, 1522), (887, 678))


def test_logarithms_are_normal():
    logs = [math.log(length) for row in lengths(2000, median=10**6) for length in row]
    assert mean(logs) == pytest.approx(math.log(10**6), abs=0.03)
    assert stdev(logs) == pytest.approx(0.6, abs=0.02)


def test_cut_at_the_longest_and_never_empty():
    assert max(max(row) for row in lengths(100, longest=1500)) == 1500
    assert min(min(row) for row in lengths(100, median=1, spread=5.0)) == 1

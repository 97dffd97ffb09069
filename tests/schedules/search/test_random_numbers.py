"""Random numbers: in [0, 1), spread evenly, the same for a seed, others for another."""

import numpy as np

from schedules.search.random_numbers import seeded, uniform


def draws(seed, count=2000):
    state = seeded(seed)
    return np.array([uniform(state) for _ in range(count)])


def test_numbers_of_a_seed_are_its_own():
    assert (draws(3) == draws(3)).all()
    assert not (draws(3) == draws(4)).any()


def test_numbers_are_spread_evenly_over_the_unit_interval():
    counts, _ = np.histogram(draws(0), bins=10, range=(0, 1))
    assert counts.sum() == 2000
    assert counts.min() > 150  # 200 expected, a deviation of 13

"""The compiled rules are the plain ones, to the bit; the bound is below all that agree with it."""

import itertools

import numpy as np
import pytest

from fusedrl.plan.search.kernel import bound, excess_of, seconds_of, tables
from tests.fusedrl.plan.search.spaces import random_space


@pytest.mark.parametrize("seed", range(3))
def test_compiled_outcome_equals_the_plain_one(seed: int) -> None:
    space = random_space(seed, ways=6)
    t, random = tables(space), np.random.default_rng(seed)
    for _ in range(40):
        choice = random.integers(0, [unit.ways for unit in space.units])
        outcome = space.outcome(choice)
        assert (seconds_of(t, choice), excess_of(t, choice)) == (outcome.seconds, outcome.excess)


@pytest.mark.parametrize("seed", range(3))
def test_bound_is_below_every_choice_that_agrees(seed: int) -> None:
    space = random_space(seed, ways=3)
    t, random = tables(space), np.random.default_rng(seed)
    whole = random.integers(0, [unit.ways for unit in space.units])
    for open_units in itertools.combinations(range(7), 3):
        choice = whole.copy()
        choice[list(open_units)] = -1
        ways = [range(unit.ways) if u in open_units else [whole[u]] for u, unit in enumerate(space.units)]
        least = min(seconds_of(t, np.array(made)) for made in itertools.product(*ways))
        assert bound(t, choice) <= least * (1 + 1e-15)
    assert bound(t, whole) <= seconds_of(t, whole) * (1 + 1e-15)

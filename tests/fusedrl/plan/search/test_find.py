"""Search against trying everything: the same time, exactly, whatever the costs."""

import pytest

from fusedrl.plan.search.find import Settings, find
from fusedrl.plan.search.prune import prune
from fusedrl.plan.search.space import exhaustive
from tests.fusedrl.plan.search.spaces import random_space

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_auto_equals_exhaustive_and_proves_it(seed: int) -> None:
    space = random_space(seed, ways=3)
    best, found = exhaustive(space), find(space, settings=Settings(seed=seed))
    assert (best is None) == (found is None)
    if best is not None and found is not None:
        assert found.outcome.seconds == best[1].seconds
        assert found.outcome == space.outcome(found.choice)
        assert found.proved


def test_memory_decides_in_spaces_of_the_test_above() -> None:
    """Without its limit the best choice of most of them is another, faster one."""
    free = [find(random_space(seed, ways=3, room=1e9), settings=Settings()) for seed in SEEDS]
    tight = [find(random_space(seed, ways=3), settings=Settings()) for seed in SEEDS]
    pairs = [(a, b) for a, b in zip(free, tight, strict=True) if a is not None and b is not None]
    assert sum(a.outcome.seconds < b.outcome.seconds for a, b in pairs) >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_pruning_keeps_the_best_time(seed: int) -> None:
    space = random_space(seed + 100, ways=3)
    smaller, _ = prune(space)
    best, kept = exhaustive(space), exhaustive(smaller)
    assert (None if best is None else best[1].seconds) == (None if kept is None else kept[1].seconds)


def test_a_seed_gives_one_plan_and_mcmc_is_no_better_than_the_optimum() -> None:
    space = random_space(5, ways=12, room=90.0)
    best = find(space, settings=Settings())
    walks = [find(space, settings=Settings(method="mcmc", steps=3000, seed=seed)) for seed in (1, 1, 2)]
    assert best is not None
    assert all(walk is not None for walk in walks)
    assert walks[0] == walks[1]
    assert all(walk.outcome.seconds >= best.outcome.seconds and not walk.proved for walk in walks if walk is not None)


def test_a_budget_of_branches_that_runs_out_is_told() -> None:
    found = find(random_space(5, ways=12, room=90.0), settings=Settings(nodes=1))
    assert found is not None
    assert not found.proved


def test_nothing_fits() -> None:
    assert find(random_space(1, ways=3, room=1.0), settings=Settings()) is None


@pytest.mark.parametrize(
    ("settings", "message"), [({"method": "genetic"}, "search.method=genetic"), ({"nodes": 0}, "search.nodes=0")]
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**settings)  # type: ignore[arg-type]


def test_exhaustive_refuses_spaces_that_are_too_large() -> None:
    space = random_space(5, ways=30)
    with pytest.raises(ValueError, match=r"search\.method=exhaustive"):
        find(space, settings=Settings(method="exhaustive"))

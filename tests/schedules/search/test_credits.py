"""Credit windows stay within the cap together, and leave no room that a stage could still take."""

from dataclasses import replace

import pytest

from schedules.problem import Model, Problem
from schedules.search.credits import equal_the_cap, fill, splits
from tests.schedules.strategies import for_all, problems

PAIR = (Model("a", [0, 1, 2], 8, 1, 2, activation=1), Model("b", [2, 1, 0], 8, 1, 2, activation=0.5))


def held_at_most(problem, windows, rank):
    """What a rank holds when all its windows are full, and the largest forward-only op runs."""
    held = passing = 0.0
    for model in problem.models:
        for s in model.stages_on(rank):
            largest = max(model.activation_of(s, m) for m in range(model.microbatches))
            if model.trains:
                held += largest * windows.get((model.name, s), 0)
            else:
                passing = max(passing, largest)
    return held + passing


@for_all(problems(), examples=60)
def test_full_windows_fit_the_cap_and_each_stage_has_one(problem):
    for windows in splits(problem):
        assert all(1 <= window <= problem.model(name).microbatches for (name, _), window in windows.items())
        assert all(problem.fits(held_at_most(problem, windows, rank)) for rank in range(problem.ranks))
        assert {name for name, _ in windows} == {m.name for m in problem.models if m.trains and any_held(m)}


def any_held(model):
    return any(model.activation_of(s, m) for s in range(model.stages) for m in range(model.microbatches))


def test_room_goes_to_those_with_the_least_of_what_1f1b_wants():
    assert fill(Problem(3, PAIR, memory_cap=4.5), favour={}) == {
        ("a", 0): 4,
        ("a", 1): 3,
        ("a", 2): 2,
        ("b", 0): 5,
        ("b", 1): 3,
        ("b", 2): 1,
    }


def test_favour_gives_a_model_more_and_the_others_less():
    problem = Problem(3, PAIR, memory_cap=4.5)
    evenly, more = (fill(problem, favour=favour) for favour in ({}, {"a": 3}))
    assert more["a", 1] > evenly["a", 1]
    assert more["b", 1] < evenly["b", 1]


def test_no_split_where_one_each_is_too_much():
    assert list(splits(Problem(3, PAIR, memory_cap=1.4))) == []


@pytest.mark.parametrize(
    ("changed", "equal"),
    [
        ({}, True),
        ({"placement": [0, 1, 1]}, False),
        ({"activation": [1, 1, [1, 2, 1, 1]]}, False),
        ({"activation": [1, 2, 3]}, True),
        ({"placement": [0, 1, 1], "activation": [1, 1, 0]}, True),
    ],
)
def test_windows_equal_the_cap_where_a_rank_holds_one_stage_of_equal_activations(changed, equal):
    model = replace(Model("a", [0, 1, 2], 4, 1, 2, activation=1), **changed)
    assert equal_the_cap(Problem(3, (model,), memory_cap=6)) is equal


def test_windows_do_not_equal_the_cap_beside_a_forward_only_model():
    models = (Model("a", [0], 2, 1, 2, activation=1), Model("reference", [0], 2, 1, activation=1))
    assert not equal_the_cap(Problem(1, models, memory_cap=2))

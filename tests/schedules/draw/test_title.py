"""The title states the result and the cost model in lines that end where the figure does."""

from dataclasses import replace

from schedules.builders import gpipe
from schedules.draw.title import costs_of, title
from schedules.problem import Model, Problem
from schedules.replay import replay

PROBLEM = Problem(
    2,
    (Model("actor", [0, 1], 2, [1, 2], 3, backward_weight=1, activation=2), Model("critic", [1, 0], 2, 1, 2)),
    comm=0.25,
    memory_cap=9,
)
RESULT = replay(PROBLEM, gpipe(PROBLEM))


def test_result_bound_and_cost_model():
    head, actor, critic = title(PROBLEM, RESULT, bound=12.5).splitlines()
    ratio = f"{RESULT.bubble_ratio:.2%}"
    assert head == f"makespan {RESULT.makespan:g} (lower bound 12.5), bubble ratio {ratio}, peak memory 4 (cap 9)"
    assert actor == "actor: 2 stages, 2 micro-batches, F 1 to 2, B 3, of it W 1, activation 2; 2 ranks, comm 0.25"
    assert critic == "critic: 2 stages, 2 micro-batches, F 1, B 2, activation 0"
    assert title(replace(PROBLEM, memory_cap=None), RESULT, bound=12.5).splitlines()[0].endswith("(no cap)")


def test_range_of_a_quantity_that_varies_by_microbatch():
    assert "F 1 to 4," in costs_of(Model("a", [0, 0], 2, [[1, 4], [3, 2]]))


def test_long_titles_are_wrapped_and_nothing_is_cut():
    whole = title(PROBLEM, RESULT, bound=12.5).split()
    wrapped = title(PROBLEM, RESULT, bound=12.5, columns=40)
    assert max(map(len, wrapped.splitlines())) <= 40
    assert wrapped.split() == whole


def test_any_number_of_models_gives_few_lines():
    problem = Problem(1, tuple(Model(f"m{i}", [0], 1, 1) for i in range(50)))
    lines = title(problem, replay(problem, gpipe(problem)), bound=50).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "... (50 models in all)"

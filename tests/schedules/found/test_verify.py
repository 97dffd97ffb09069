"""Every kept order is what its record says, and a record that is not true is refused, claim by claim."""

from dataclasses import replace

import pytest

from schedules.bounds import lower_bound
from schedules.builders import gpipe, greedy
from schedules.found.keep import keep
from schedules.found.room import load, order_files
from schedules.found.verify import bound_of, verify
from schedules.order import OrderError
from schedules.order_file import save_order
from schedules.problem import Model, Problem

PROBLEM = Problem(2, (Model("a", [0, 1], 2, 1, 2, activation=1), Model("b", [1, 0], 2, 1, 2, activation=1)))


@pytest.fixture
def kept(tmp_path):
    problem = PROBLEM.with_cap(4)
    return keep(problem, greedy(problem), name="p", method="greedy", seed=0, seconds=0.1, room=tmp_path)


@pytest.mark.parametrize("path", order_files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kept_order_is_what_its_record_says(path):
    order = load(path)
    result = verify(order)
    assert result.makespan == pytest.approx(order.record.makespan, rel=1e-9)
    assert order.record.proved_optimal == (order.record.makespan == pytest.approx(order.record.lower_bound, rel=1e-9))
    assert result.makespan >= lower_bound(order.problem) * (1 - 1e-9)
    assert order.record.memory_cap is None or max(result.peak_memory) <= order.record.memory_cap * (1 + 1e-9)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"makespan": 9.0}, "makespan 9 is said, {makespan:g} is what replay gives"),
        ({"peak_memory": 1.0}, "peak memory 1 is said, {peak_memory:g} is what replay gives"),
        ({"lower_bound": 99.0}, "lower bound 99 is above the makespan {makespan:g}"),
        (
            {"lower_bound": 1.0, "proved_optimal": True},
            "said to be proved, with makespan {makespan:g} and lower bound 1",
        ),
        ({"proved_optimal": False, "lower_bound": None}, "said to be not proved, with makespan"),
        ({"memory_cap": 5.0}, r"the best order within its memory cap belongs into cap5\.csv"),
        ({"memory_cap": 2.0}, "rank [01]: peak memory [34] is above memory_cap 2"),
    ],
)
def test_false_claim_is_refused_by_name(kept, claim, message):
    claim = {key: kept.record.makespan if value is None else value for key, value in claim.items()}
    record = replace(kept.record, **claim)
    save_order(kept.path, problem=kept.problem, order=kept.order, record=record)
    with pytest.raises(OrderError, match=message.format(**vars(kept.record))) as caught:
        verify(load(kept.path))
    assert str(caught.value).startswith(f"{kept.path}: ")


def test_order_changed_by_hand_is_refused(kept):
    save_order(kept.path, problem=kept.problem, order=gpipe(kept.problem), record=kept.record)
    with pytest.raises(OrderError, match="is said"):
        verify(load(kept.path))


def test_changed_problem_is_refused(kept):
    problem_file = kept.path.with_name("problem.yaml")
    problem_file.write_text(problem_file.read_text().replace("forward: 1", "forward: 1.5", 1))
    with pytest.raises(OrderError, match="the order was made for problem"):
        load(kept.path)


def test_bound_is_computed_anew_and_a_solvers_higher_one_is_told_apart(kept):
    computed = lower_bound(PROBLEM)
    assert bound_of(replace(kept, record=replace(kept.record, lower_bound=1.0))) == (computed, "computed")
    assert bound_of(replace(kept, record=replace(kept.record, lower_bound=computed + 1))) == (computed + 1, "solver")

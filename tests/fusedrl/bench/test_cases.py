import msgpack
import pytest

from fusedrl.bench.cases import ALL_METHODS, SPLIT, Case, from_wire, problem_of, solve_case, solving_limit, to_wire
from schedules.problem import Model, Problem
from schedules.search.limits import Limits
from schedules.solve import SEARCHES

LIMITS = Limits(seconds=2.0, steps=300)


def problem(microbatches: int = 4) -> Problem:
    return Problem(
        2,
        (
            Model("actor", [0, 1], microbatches, forward=1 / 3, backward=2.0, activation=1.0),
            Model("critic", [1, 0], microbatches, forward=0.5, backward=1.0, activation=1.0),
        ),
    )


@pytest.mark.parametrize("method", ["serial", "interleaved", "zero-bubble", "greedy", "fused_split"])
def test_cases_travel_unchanged(method: str) -> None:
    case = solve_case(problem(), method, limits=LIMITS)
    assert case.order is not None
    assert from_wire(msgpack.unpackb(msgpack.packb(to_wire(case)))) == case


def test_each_method_gets_the_problem_it_is_made_for() -> None:
    assert problem_of(problem(), "greedy") == problem()
    assert problem_of(problem(), "interleaved").models[0].placement == (0, 1, 0, 1)
    for method in ("zero-bubble", "fused_split"):
        assert problem_of(problem(), method).models[0].backward_weight == 1.0
        order = solve_case(problem(), method, limits=LIMITS).order
        assert order is not None
        assert "W" in {op.kind for row in order.rows for op in row}


def test_a_method_that_does_not_suit_is_a_refused_case() -> None:
    case = solve_case(problem(3), "interleaved", limits=LIMITS)
    assert case.order is None
    assert "micro-batches in multiples of p" in case.refused
    assert from_wire(to_wire(case)) == case


def test_searches_lengthen_the_wait() -> None:
    limits = Limits(seconds=50.0)
    builders = [m for m in ALL_METHODS if m not in (*SEARCHES, SPLIT)]
    assert solving_limit(builders, limits=limits) == solving_limit([], limits=limits)
    assert solving_limit(["auto", "fused_split"], limits=limits) - solving_limit([], limits=limits) >= 100.0


def test_wire_keeps_seconds_and_reason() -> None:
    case = Case("greedy", problem(), None, 1.5, "why")
    assert (from_wire(to_wire(case)).seconds, from_wire(to_wire(case)).refused) == (1.5, "why")

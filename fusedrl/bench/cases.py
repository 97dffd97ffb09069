"""What an emulation runs: a problem and an order for each method. One rank solves, the others are told.

    serial, greedy, auto, ...     any method of schedules.solve on the problem as given
    interleaved                   each stage cut in two, the halves laid round the ranks twice; interleaved 1F1B
    zero-bubble                   ZB-H1, on the problem with a weight part
    fused_split                   the problem with a weight part (its own, or half of backward), solved by auto

A method that does not suit a problem makes a case with the reason in `refused` and no order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fusedrl.bench.fold import with_weight_part
from schedules.order import Order, OrderError
from schedules.placement import place
from schedules.problem import Problem, ProblemError
from schedules.search.limits import Limits
from schedules.solve import METHODS, SEARCHES, solve

SPLIT = "fused_split"
ALL_METHODS = (*METHODS, SPLIT)


@dataclass(frozen=True)
class Case:
    """A method's problem and order, or why there is none."""

    method: str
    problem: Problem
    order: Order | None
    seconds: float = 0.0  # that solving took
    refused: str = ""


def problem_of(problem: Problem, method: str) -> Problem:
    """The problem that a method is given."""
    if method == "interleaved":
        return place(problem, shape="interleaved")
    return with_weight_part(problem) if method in (SPLIT, "zero-bubble") else problem


def solve_case(problem: Problem, method: str, *, limits: Limits) -> Case:
    given = problem_of(problem, method)
    try:
        solution = solve(given, method="auto" if method == SPLIT else method, limits=limits)
    except (ProblemError, OrderError) as error:
        return Case(method, given, None, refused=str(error))
    return Case(method, solution.problem, solution.order, solution.seconds)


def solving_limit(methods: Sequence[str], *, limits: Limits) -> float:
    """Seconds after which solving all the methods has gone wrong: the searches' limits, and room for the rest."""
    searches = sum(method in (*SEARCHES, SPLIT) for method in methods)
    return 120.0 + 2.0 * limits.seconds * searches


def to_wire(case: Case) -> dict[str, Any]:
    """The case in msgpack's types."""
    order = None if case.order is None else case.order.to_text(case.problem)
    problem = case.problem.to_dict()
    return {**vars(case), "problem": problem, "order": order}


def from_wire(wire: dict[str, Any]) -> Case:
    problem = Problem.from_dict(wire["problem"])
    order = None if wire["order"] is None else Order.from_text(wire["order"], problem)
    return Case(**{**wire, "problem": problem, "order": order})

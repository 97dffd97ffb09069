"""Models one after the other without a barrier between, each in the best order that a search finds for it alone.

Models that share a rank, directly or through a third, follow each other in the problem's sequence; the copies of a
critic share none, so they run side by side. The rows are joined rank by rank: a rank that is done with the actor goes
on with the critic at once.
"""

import time
from dataclasses import replace

from schedules.bounds import lower_bound
from schedules.check import check
from schedules.order import Order
from schedules.problem import Model, Problem
from schedules.search.limits import Limits
from schedules.solve import Solution, solve


def solve_apart(problem: Problem, *, method: str, limits: Limits) -> Solution:
    """The joined order. It keeps the memory cap: a rank gives back all that a turn holds before the next."""
    began = time.perf_counter()
    turns = in_turn(problem)
    part = limits.part(1 / len(turns))
    orders = [solve(replace(problem, models=turn), method=method, limits=part).order for turn in turns]
    rows = zip(*(order.rows for order in orders), strict=True)
    joined = Order(tuple(tuple(op for row in each for op in row) for each in rows))
    seconds = time.perf_counter() - began
    return Solution(problem, joined, check(problem, joined), lower_bound(problem), f"{method}-apart", seconds)


def in_turn(problem: Problem) -> list[tuple[Model, ...]]:
    """The models in turns: a model joins the last turn where it shares no rank with that turn's models."""
    turns: list[list[Model]] = []
    for model in problem.models:
        if turns and not any(_ranks(model) & _ranks(other) for other in turns[-1]):
            turns[-1].append(model)
        else:
            turns.append([model])
    return [tuple(turn) for turn in turns]


def _ranks(model: Model) -> set[int]:
    return {rank for s in range(model.stages) for rank in model.ranks_of(s)}

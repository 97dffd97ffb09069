"""Models one after the other without a barrier between, in the best order that a search finds.

Models that share a rank, directly or through a third, follow each other in the problem's sequence; the copies of a
critic share none, so they run side by side. A rank that is done with the actor goes on with the critic at once. Each
turn's models are searched alone first; then tabu search goes on over all of them, each op kept among its model's.
"""

import time
from dataclasses import replace

from schedules.bounds import lower_bound
from schedules.check import check
from schedules.order import Order
from schedules.problem import Model, Problem
from schedules.search.auto import descend
from schedules.search.limits import Limits
from schedules.solve import Solution, solve

_ALONE = 0.5  # of the limits


def solve_apart(problem: Problem, *, method: str, limits: Limits) -> Solution:
    """The best order with the models apart. It keeps the memory cap: a rank gives back all of a turn before the next.

    The bound told is that of the problem, which orders that mix the models may meet and this one cannot.
    """
    began = time.perf_counter()
    turns = in_turn(problem)
    part = limits.part(_ALONE / len(turns))
    orders = [solve(replace(problem, models=turn), method=method, limits=part).order for turn in turns]
    rows = zip(*(order.rows for order in orders), strict=True)
    joined = Order(tuple(tuple(op for row in each for op in row) for each in rows))
    bound = lower_bound(problem)
    order = descend(problem, joined, limits=limits.part(1 - _ALONE), goal=bound, apart=True)
    seconds = time.perf_counter() - began
    return Solution(problem, order, check(problem, order), bound, f"{method}-apart", seconds)


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

"""Orders chosen to last: real durations jitter, and of near-optimal orders some stand it better than others.

jitter j: every op takes max(0, 1 + j N(0, 1)) times its planned duration, drawn anew in each sample. The same samples
are used for all orders, so that their means differ by the orders alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from schedules.graph import build_graph, every_split, split_of
from schedules.order import Op, Order
from schedules.problem import Problem
from schedules.replay import measure, numbered, replay

_SLACK = 0.02  # orders within 2 % of the shortest are near-optimal


def mean_makespan(problem: Problem, order: Order, *, jitter: float, samples: int = 32, seed: int = 0) -> float:
    """The mean makespan of an order over jittered durations."""
    graph = build_graph(problem, split=split_of(order))
    rows = numbered(graph, order)
    place = _places(problem)
    slots = [place[op] for op in graph.ops]
    random = np.random.default_rng(seed)
    makespans = []
    for _ in range(samples):
        factor = np.maximum(0.0, 1.0 + jitter * random.standard_normal(len(place)))[slots]
        jittered = replace(graph, duration=(np.array(graph.duration) * factor).tolist())
        makespans.append(measure(jittered, rows)[0])
    return float(np.mean(makespans))


def _places(problem: Problem) -> dict[Op, int]:
    """A number for every op that an order of the problem may hold, split or not: an op draws the same in all orders."""
    return {op: i for i, op in enumerate(build_graph(problem, split=every_split(problem)).ops)}


def most_robust(problem: Problem, orders: Sequence[Order], *, jitter: float, samples: int = 32, seed: int = 0) -> Order:
    """Of the orders within 2 % of the shortest, the one with the least mean makespan under jitter."""
    planned = [replay(problem, order).makespan for order in orders]
    near = [order for order, time in zip(orders, planned, strict=True) if time <= min(planned) * (1 + _SLACK)]
    return min(near, key=lambda order: mean_makespan(problem, order, jitter=jitter, samples=samples, seed=seed))

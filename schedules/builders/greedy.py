"""Greedy fused order: list scheduling of all models at once, the op with the longest way to go first.

    priority(op) = duration + tail;  in flight at stage s of S: at most S - s + e micro-batches

Without a limit on the micro-batches in flight, a model that starts early takes the memory that the others need; with
the 1F1B count plus a small surplus e they share it. A few surpluses are tried, as many as a bounded amount of work
allows, and the best by makespan, then by memory, is kept; serial 1F1B is kept where it is better and fits.
"""

from schedules.builders.list_schedule import list_schedule
from schedules.builders.serial import serial_1f1b
from schedules.graph import Graph, build_graph, every_split
from schedules.order import Order
from schedules.paths import tails
from schedules.problem import Problem
from schedules.replay import measure, replay

_SURPLUSES = (4, 1, 0, 2, 8, None)  # None: no limit but memory; the sequence in which they helped most often
_OPS_TRIED = 9000  # ops scheduled in all tries: 0.2 s at 16 ranks x 64 micro-batches x 2 models


def greedy(problem: Problem) -> Order:
    """A fused order within the memory cap; there is one for every problem. Backwards are split where they may be."""
    graph = build_graph(problem, split=every_split(problem))
    priority = [-d - t for d, t in zip(graph.duration, tails(graph), strict=True)]
    tries = max(2, _OPS_TRIED // len(graph.ops))
    rows = [list_schedule(graph, priority=priority, window=_window(graph, e)) for e in _SURPLUSES[:tries]]
    makespan, memory, best = min(((*measure(graph, r), r) for r in rows), key=lambda measured: measured[:2])
    serial = serial_1f1b(problem)
    result = replay(problem, serial)
    better = (result.makespan, result.max_peak_memory) < (makespan, memory) and problem.fits(result.max_peak_memory)
    return serial if better else graph.to_order(best)


def _window(graph: Graph, surplus: int | None) -> dict[int, int]:
    """The most micro-batches in flight for each forward chain of a training model."""
    if surplus is None:
        return {}
    stages = {model.name: model.stages for model in graph.problem.models}
    return {i: stages[c.model] - c.stage + surplus for i, c in enumerate(graph.chains) if c.kind == "F"}

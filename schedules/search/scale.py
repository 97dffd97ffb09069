"""Problems in units of their own size, so that a search may tell what is close by fixed numbers."""

import math
from dataclasses import replace

from schedules.graph import Graph


def unit_near_mean(values: list[float]) -> float:
    """A power of two near the mean of what is above 0: numbers divide by it without rounding."""
    return 2.0 ** round(math.log2(mean_of_positive(values)))


def mean_of_positive(values: list[float]) -> float:
    """The mean of what is above 0; 1 where nothing is."""
    positive = [value for value in values if value > 0]
    return sum(positive) / len(positive) if positive else 1.0


def scaled(graph: Graph, *, time: float, memory: float) -> Graph:
    """The graph with its times and memory in other units."""
    return replace(
        graph,
        duration=[d / time for d in graph.duration],
        before=[tuple((j, lag / time) for j, lag in links) for links in graph.before],
        acquire=[a / memory for a in graph.acquire],
        release=[r / memory for r in graph.release],
    )

"""Scaling: by powers of two, so that nothing is rounded; one unit for times and lags, one for memory."""

import math

from schedules.graph import build_graph, every_split
from schedules.search.scale import scaled, unit_near_mean
from tests.schedules.strategies import for_all, problems


def test_unit_is_the_power_of_two_near_the_mean_of_what_is_above_zero():
    assert unit_near_mean([0.0, 3.0, 5.0]) == 4.0
    assert unit_near_mean([0.0, 0.0]) == unit_near_mean([]) == 1.0
    assert math.log2(unit_near_mean([3e-12])) == -38


@for_all(problems())
def test_scaling_there_and_back_is_the_same_graph(problem):
    graph = build_graph(problem, split=every_split(problem))
    other = scaled(graph, time=0.25, memory=8.0)
    assert scaled(other, time=4.0, memory=0.125) == graph
    assert [4 * d for d in graph.duration] == other.duration
    assert [a / 8 for a in graph.acquire] == other.acquire
    assert [[(j, 4 * lag) for j, lag in links] for links in graph.before] == [list(links) for links in other.before]

"""Memory curves peak where replay says and end at nothing."""

from schedules.builders import gpipe, greedy
from schedules.draw.memory import memory_curves
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.strategies import for_all, problems


@for_all(problems())
def test_peaks_equal_the_replay_and_all_is_given_back(problem):
    for order in (greedy(problem), gpipe(problem)):
        curves = memory_curves(problem, order)
        assert tuple(max(held for _, held in curve) for curve in curves) == replay(problem, order).peak_memory
        assert all(curve[-1][1] == 0 for curve in curves)
        assert all([t for t, _ in curve] == sorted(t for t, _ in curve) for curve in curves)


def test_curve_by_hand():
    problem = Problem(1, (Model("a", [0], 2, 1, 2, activation=3),))
    assert memory_curves(problem, gpipe(problem)) == [[(0, 0), (0, 3), (1, 6), (4, 3), (6, 0)]]

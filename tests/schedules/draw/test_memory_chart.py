"""The memory panel: a line a rank while lines can be told apart, else their range; the cap is a line; no false dips."""

import numpy
import pytest

from schedules.builders import gpipe, serial_1f1b
from schedules.draw.memory_chart import draw_memory, settled
from schedules.problem import Model, Problem
from schedules.replay import replay


def panel(problem, order):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    draw_memory(axes, problem, order, replay(problem, order))
    return axes


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def chain(ranks, **options):
    return Problem(ranks, (Model("a", list(range(ranks)), 4, 1, 2, activation=3),), **options)


def test_what_is_given_back_and_taken_at_one_instant_is_no_dip():
    assert settled([(0, 0), (0, 3), (1, 6), (4, 3), (4, 6), (6, 0)]) == [(0, 3), (1, 6), (4, 6), (6, 0)]


def test_few_ranks_have_a_line_each_that_peaks_where_replay_does():
    problem = chain(4, memory_cap=12)
    order = serial_1f1b(problem)
    axes = panel(problem, order)
    assert labels(axes) == ["rank 0", "rank 1", "rank 2", "rank 3", "cap"]
    peaks = tuple(max(line.get_ydata()) for line in axes.get_lines()[:4])
    assert peaks == replay(problem, order).peak_memory == (12, 9, 6, 3)
    assert list(axes.get_lines()[4].get_ydata()) == [12, 12]


def test_without_a_cap_there_is_no_line_of_it():
    assert "cap" not in labels(panel(chain(2), gpipe(chain(2))))


def test_many_ranks_show_their_range():
    problem = chain(40)
    axes = panel(problem, gpipe(problem))
    assert labels(axes) == ["all ranks", "largest", "mean"]
    largest, mean = (numpy.asarray(line.get_ydata()) for line in axes.get_lines())
    assert largest.max() == 12
    assert (mean <= largest).all()
    assert mean.max() == pytest.approx(12, abs=6)

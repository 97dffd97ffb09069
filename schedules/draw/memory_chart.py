"""The memory panel of a Gantt chart: what each rank holds over time, and the cap as a line.

Up to _MOST_LINES ranks a line each, the first rank light and the last one dark; above that the range over the ranks.
"""

from typing import Any

from schedules.draw.memory import Curve, memory_curves
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import Replay

_MOST_LINES = 16
_SAMPLES = 2000  # points in time of the range over many ranks


def draw_memory(chart: Any, problem: Problem, order: Order, result: Replay) -> None:
    """Draw into the axes `chart`."""
    curves = [settled(curve) for curve in memory_curves(problem, order, result=result)]
    if len(curves) <= _MOST_LINES:
        _draw_lines(chart, curves, result.makespan)
    else:
        _draw_range(chart, curves, result.makespan)
    if problem.memory_cap is not None:
        chart.axhline(problem.memory_cap, color="crimson", linestyle="--", linewidth=1, label="cap")
    chart.set(xlabel="time", ylabel="memory in flight", ylim=(0, None))
    chart.legend(
        loc="upper left", bbox_to_anchor=(1.002, 1.02), borderaxespad=0, frameon=False, fontsize=6.5, handlelength=1.3
    )
    chart.grid(axis="y", linewidth=0.4, alpha=0.5)
    chart.spines[["top", "right"]].set_visible(False)


def settled(curve: Curve) -> Curve:
    """The curve with one point a time: what is given back and taken again at one instant is no change."""
    last = dict(curve)
    return list(last.items())


def _draw_lines(chart: Any, curves: list[Curve], makespan: float) -> None:
    from matplotlib import colormaps

    shades = colormaps["viridis"]
    for rank, curve in enumerate(curves):
        times, held = zip(*curve, (makespan, curve[-1][1]), strict=True)
        color = shades(0.92 - 0.92 * rank / max(1, len(curves) - 1))
        chart.step(times, held, where="post", linewidth=1, color=color, label=f"rank {rank}")


def _draw_range(chart: Any, curves: list[Curve], makespan: float) -> None:
    import numpy

    times = numpy.linspace(0, makespan, _SAMPLES)
    most, least, total = numpy.zeros(_SAMPLES), numpy.full(_SAMPLES, numpy.inf), numpy.zeros(_SAMPLES)
    for curve in curves:
        points = numpy.array(curve)
        held = points[numpy.searchsorted(points[:, 0], times, side="right") - 1, 1]
        most, least, total = numpy.maximum(most, held), numpy.minimum(least, held), total + held
    style = {"step": "post", "linewidth": 0}
    chart.fill_between(times, least, most, color="0.82", label="all ranks", **style)
    chart.step(times, most, where="post", linewidth=1, color="0.25", label="largest")
    chart.step(times, total / len(curves), where="post", linewidth=1, color="tab:blue", label="mean")

"""An order as a Gantt chart (SVG or PNG): one row a rank, a hue per model, F light, B darker, W darkest.

Below it the memory in flight on each rank. The title states the cost model, without which bubbles mean nothing.
"""

import colorsys
from pathlib import Path
from typing import Any

from schedules.draw.memory import memory_curves
from schedules.order import Op, Order
from schedules.problem import Model, Problem
from schedules.replay import Replay, replay

_LIGHTNESS = {"F": 0.78, "B": 0.55, "W": 0.36}
_MOST_LABELS = 600  # ops; beyond that the labels only blot the chart


def save_gantt(path: str | Path, *, problem: Problem, order: Order) -> None:
    """Write the chart; the ending of `path` (.svg or .png) picks the format."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "fusedrl"  # the same order gives the same file
    result = replay(problem, order)
    height = 1.6 + 0.32 * problem.ranks
    figure, (chart, memory) = plt.subplots(
        2, 1, figsize=(16, height + 1.8), sharex=True, height_ratios=[height, 1.8], layout="constrained"
    )
    _draw_rows(chart, problem, order, result)
    _draw_memory(memory, problem, order)
    figure.suptitle(title(problem, result), fontsize=9)
    figure.savefig(path, metadata={"Date": None} if Path(path).suffix == ".svg" else None, dpi=110)
    plt.close(figure)


def title(problem: Problem, result: Replay) -> str:
    """Two lines: the result, then the cost model."""
    cap = "none" if problem.memory_cap is None else f"{problem.memory_cap:g}"
    head = (
        f"makespan {result.makespan:g}, bubble ratio {result.bubble_ratio:.2%}, "
        f"peak memory {result.max_peak_memory:g} (cap {cap})"
    )
    return head + "\n" + "; ".join([*(_costs(model) for model in problem.models), f"comm {problem.comm:g}"])


def color_of(problem: Problem, op: Op) -> tuple[float, float, float]:
    """A hue per model (blue, orange, then round the circle), a lightness per kind."""
    index = [model.name for model in problem.models].index(op.model)
    hue = (0.58 + 0.5 * index + 0.17 * (index // 2)) % 1.0
    return colorsys.hls_to_rgb(hue, _LIGHTNESS[op.kind], 0.62)


def _costs(model: Model) -> str:
    parts = {"F": model.forward, "B": model.backward, "W": model.backward_weight}
    costs = ", ".join(f"{kind} {_brief(form)}" for kind, form in parts.items() if form is not None)
    size = f"{model.stages} stages, {model.microbatches} micro-batches"
    return f"{model.name}: {size}, {costs}, {_brief(model.activation)} held"


def _brief(form: object) -> str:
    return f"{form:g}" if isinstance(form, (int, float)) else "varying"


def _draw_rows(chart: Any, problem: Problem, order: Order, result: Replay) -> None:
    labels = sum(map(len, order.rows)) <= _MOST_LABELS
    for rank, row in enumerate(order.rows):
        bars = [(result.start[op], result.end[op] - result.start[op]) for op in row]
        colors = [color_of(problem, op) for op in row]
        chart.broken_barh(bars, (rank - 0.45, 0.9), facecolors=colors, edgecolors="white", linewidth=0.3)
        for op, (begin, length) in zip(row, bars, strict=True) if labels else ():
            chart.text(begin + length / 2, rank, str(op.microbatch), ha="center", va="center", fontsize=6)
    chart.set(yticks=range(problem.ranks), ylabel="rank", xlim=(0, result.makespan or 1.0))
    chart.invert_yaxis()


def _draw_memory(chart: Any, problem: Problem, order: Order) -> None:
    for rank, curve in enumerate(memory_curves(problem, order)):
        times, held = zip(*curve, strict=True)
        chart.step(times, held, where="post", linewidth=0.8, label=str(rank))
    if problem.memory_cap is not None:
        chart.axhline(problem.memory_cap, color="black", linestyle="--", linewidth=0.8)
    chart.set(xlabel="time", ylabel="memory in flight", ylim=(0, None))
    chart.legend(title="rank", fontsize=5, title_fontsize=6, ncols=8, loc="upper right")

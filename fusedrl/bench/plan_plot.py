"""The picture of bench.plan_truth: measured against predicted seconds of a step, a point a plan."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.atomic import write_file

COLOURS = {"best": "#2f5d3a", "slowest": "#b0413e", "random": "#9a9a9a"}
HEURISTIC = "#5b8db8"


def save_plot(rows: Sequence[Mapping[str, Any]], *, path: Path) -> None:
    """A PNG; the line is where both are equal, the band 10 % to either side."""
    from matplotlib.figure import Figure  # here: who draws nothing need not load it

    figure = Figure(figsize=(5.5, 5), layout="constrained")
    axes = figure.subplots()
    seconds = [row[key] for row in rows for key in ("predicted_s", "measured_s")]
    ends = [min(seconds) * 0.8, max(seconds) * 1.25]
    axes.plot(ends, ends, color="#777777", linewidth=1)
    axes.fill_between(ends, [x * 0.9 for x in ends], [x * 1.1 for x in ends], color="#dddddd", alpha=0.6)
    for row in rows:
        colour = COLOURS.get(row["plan"].split()[0], HEURISTIC)
        axes.scatter(row["predicted_s"], row["measured_s"], color=colour, s=22, zorder=3)
        axes.annotate(
            row["plan"], (row["predicted_s"], row["measured_s"]), fontsize=6, xytext=(4, -3), textcoords="offset points"
        )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set_xlabel("predicted seconds of a step")
    axes.set_ylabel("measured (of the cost model's seconds)")
    axes.spines[["top", "right"]].set_visible(False)
    image = BytesIO()
    figure.savefig(image, format="png", dpi=140)
    write_file(path, image.getvalue())

"""The picture of bench.rollout: seconds of each way, by distribution of lengths."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.atomic import write_file

BARS = {
    "stage_by_stage_s": ("stage by stage", "#9a9a9a"),
    "streaming_s": ("streaming", "#5b8db8"),
    "migration_s": ("streaming + migration", "#2f5d3a"),
    "simulated_migration_s": ("the same, simulated", "#a9c8ae"),
    "best_swept_s": ("best of the sweep", "#d8a24a"),
}


def save_plot(results: Mapping[str, Mapping[str, Any]], *, path: Path) -> None:
    """A PNG with a group of bars for each distribution; the speed against stage by stage stands on each bar."""
    from matplotlib.figure import Figure  # here: a rank that draws nothing need not load it

    figure = Figure(figsize=(2 + 2.6 * len(results), 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(BARS)
    for place, (key, (label, colour)) in enumerate(BARS.items()):
        heights = [found[key] for found in results.values()]
        bars = axes.bar(
            [g + (place - 2) * width for g in range(len(results))], heights, width, label=label, color=colour
        )
        faster = [f"{found['stage_by_stage_s'] / found[key]:.2f}x" for found in results.values()]
        axes.bar_label(bars, faster, fontsize=7)
    axes.set_xticks(range(len(results)), [f"{name}\nr_t {f['r_t']}, m {f['m']}" for name, f in results.items()])
    axes.set_ylabel("seconds, generation and inference")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    image = BytesIO()
    figure.savefig(image, format="png", dpi=140)
    write_file(path, image.getvalue())

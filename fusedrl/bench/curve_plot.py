"""The picture of bench.learning_curves: a panel a metric, a line a variant, a band from the least to the greatest."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from fusedrl.bench.curves import Curve, panels
from fusedrl.checkpoint.atomic import write_file

COLOURS = ("#2f5d3a", "#5b8db8", "#d8a24a", "#9a4a4a", "#6b5b95", "#9a9a9a")


def save_plot(curves: Sequence[Curve], *, path: Path, title: str) -> None:
    """In the form that the file's name asks for (.png, .svg)."""
    from matplotlib.figure import Figure  # here: a rank that draws nothing need not load it

    shown = list(panels(curves))
    variants = list(dict.fromkeys(each.variant for each in curves))
    figure = Figure(figsize=(4.6 * len(shown), 3.6), layout="constrained")
    for axes, (metric, of_metric) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for each in of_metric:
            colour = COLOURS[variants.index(each.variant) % len(COLOURS)]
            steps = [point.step for point in each.points]
            label = f"{each.variant} ({each.seeds} seed{'s' if each.seeds > 1 else ''})"
            axes.plot(steps, [point.mean for point in each.points], color=colour, label=label)
            bounds = [[point.least for point in each.points], [point.greatest for point in each.points]]
            axes.fill_between(steps, *bounds, color=colour, alpha=0.2, linewidth=0)
        axes.set_title(metric, fontsize=9)
        axes.set_xlabel("step")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=10)
    image = BytesIO()
    figure.savefig(image, format=path.suffix.removeprefix("."), dpi=120)
    write_file(path, image.getvalue())

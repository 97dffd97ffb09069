"""Learning curves of several seeds as one: mean and spread of a metric over the steps that all runs have.

    runs/curves/arithmetic/grpo/seed0/metrics.jsonl   -> metric -> step -> value
    mean, least and greatest over the seeds           -> a CSV line a step, a table row a metric

The spread is that of the seeds at hand, from the least to the greatest: with three of them it is no interval of
confidence.
"""

import csv
import io
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

Series = Mapping[int, float]
COLUMNS = ("variant", "metric", "step", "mean", "min", "max", "seeds")
LAST = 5  # points of which a table row gives the mean, for a metric that every step has


@dataclass(frozen=True)
class Point:
    step: int
    mean: float
    least: float
    greatest: float


@dataclass(frozen=True)
class Curve:
    """One metric of one variant over its seeds."""

    variant: str
    metric: str
    seeds: int
    points: tuple[Point, ...]


def records(path: Path) -> Iterator[dict[str, float]]:
    """The lines of a metrics.jsonl, if it is there; one that an interrupted run left unfinished is passed over."""
    for text in path.read_text().splitlines() if path.is_file() else ():
        with suppress(json.JSONDecodeError):
            yield json.loads(text)


def series(path: Path, metric: str) -> Series:
    """Step -> value of the steps that have the metric; of a step that a resumed run did twice, the later one."""
    found = {int(line["step"]): line[metric] for line in records(path) if metric in line}
    return dict(sorted(found.items()))


def metrics_of(path: Path, names: Sequence[str]) -> list[str]:
    """The run's metrics of these names, in their order; a name that no metric has stands for those it begins."""
    there = {name: None for line in records(path) for name in line}
    return [each for name in names for each in ([name] if name in there else there) if each.startswith(name)]


def curve(paths: Sequence[Path], *, variant: str, metric: str) -> Curve:
    """The steps that every run has. ValueError where there is none."""
    runs = [series(path, metric) for path in paths]
    steps = sorted(set.intersection(*(set(run) for run in runs)))
    if not steps:
        raise ValueError(f"{metric}: no step that all {len(paths)} runs of {variant} have")
    points = [Point(step, statistics.fmean(v), min(v), max(v)) for step in steps for v in [[run[step] for run in runs]]]
    return Curve(variant, metric, len(paths), tuple(points))


def as_csv(curves: Sequence[Curve]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in curves:
        for point in each.points:
            values = [f"{value:.6g}" for value in (point.mean, point.least, point.greatest)]
            writer.writerow([each.variant, each.metric, point.step, *values, each.seeds])
    return text.getvalue()


def markdown(runs: Mapping[str, Sequence[Path]], metrics: Sequence[str]) -> str:
    """A row for each variant and metric: its first value and its last, each as mean (least to greatest) over seeds.

    A metric that is measured at every step is noisy: there the means of the first and the last five steps stand.
    """
    rows = ["| variant | metric | seeds | first | last |", "|---|---|---|---|---|"]
    for variant, paths in runs.items():
        for metric in metrics:
            found = [list(series(path, metric).items()) for path in paths]
            if all(found):
                cells = " | ".join(_cell([_end(run, last=last) for run in found]) for last in (False, True))
                rows.append(f"| {variant} | {metric}{_of_steps(found[0])} | {len(paths)} | {cells} |")
    return "\n".join(rows)


def _end(run: Sequence[tuple[int, float]], *, last: bool) -> float:
    count = LAST if _every_step(run) else 1
    return statistics.fmean(value for _, value in (run[-count:] if last else run[:count]))


def _every_step(run: Sequence[tuple[int, float]]) -> bool:
    steps = [step for step, _ in run]
    return len(steps) >= 2 * LAST and steps == list(range(steps[0], steps[-1] + 1))


def _of_steps(run: Sequence[tuple[int, float]]) -> str:
    return f", mean of {LAST} steps" if _every_step(run) else ""


def _cell(values: Sequence[float]) -> str:
    mean = f"{statistics.fmean(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.3f} to {max(values):.3f})"


def panels(curves: Sequence[Curve]) -> Iterator[tuple[str, list[Curve]]]:
    """Curves by metric, in the order in which the metrics first come."""
    for metric in dict.fromkeys(each.metric for each in curves):
        yield metric, [each for each in curves if each.metric == metric]

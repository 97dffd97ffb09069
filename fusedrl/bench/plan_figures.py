"""From the events of an emulated step to figures, and from many plans' figures to how well a step was predicted."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fusedrl.bench.plan_emulated import Acting
from fusedrl.bench.plan_scene import Scene
from fusedrl.plan.planner import Plan
from fusedrl.plan.search.space import PHASES

Ranks = Sequence[Mapping[str, Any]]
"""Of each rank: {events, ran}."""
Row = dict[str, Any]


def step_seconds(ranks: Ranks) -> float:
    """On the clock: from the first rank's beginning to the last one's end."""
    steps = [(start, end) for rank in ranks for unit, _, start, end in rank["events"] if unit < 0]
    return (max(end for _, end in steps) - min(start for start, _ in steps)) / 1e9


def phase_seconds(scene: Scene, ranks: Ranks) -> list[float]:
    """Of each phase, on the clock: from the end of the one before to its last rank's end."""
    began = min(start for rank in ranks for unit, _, start, _ in rank["events"] if unit < 0)
    ends = [began]
    for phase in range(len(PHASES)):
        own = [e for rank in ranks for unit, _, _, e in rank["events"] if unit >= 0 and scene.phase(unit) == phase]
        ends.append(max(own, default=ends[-1]))
    return [(after - before) / 1e9 for before, after in pairwise(ends)]


def row_of(plan: Plan, scene: Scene, repeats: Sequence[Ranks], acting: Acting) -> Row:
    """Seconds of the cost model: predicted, and measured as the median of the repeats."""
    steps = [step_seconds(ranks) / acting.scale for ranks in repeats]
    measured = statistics.median(steps)
    phases = np.median([phase_seconds(scene, ranks) for ranks in repeats], axis=0) / acting.scale
    row: Row = {
        "plan": plan.name,
        "fused": plan.fused,
        "predicted_s": plan.seconds,
        "measured_s": measured,
        "error": plan.seconds / measured - 1,
        "least_s": min(steps),
        "most_s": max(steps),
    }
    for name, planned, found in zip(PHASES, plan.phases.values(), phases, strict=True):
        row |= {f"predicted_{name}_s": planned, f"measured_{name}_s": float(found)}
    return row | {f"way_{call}": f"{way} size={way.size}" for call, way in plan.ways.items()}


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Rank correlation (Spearman) and errors, as shares of what was measured."""
    predicted, measured = ([row[key] for row in rows] for key in ("predicted_s", "measured_s"))
    errors = [abs(row["error"]) for row in rows]
    return {
        "plans": len(rows),
        "rank_correlation": spearman(predicted, measured),
        "mean_error": statistics.mean(errors),
        "worst_error": max(errors),
    }


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Pearson's correlation of the ranks; equal values share the mean of theirs. 0 where one side is all alike."""
    a, b = _ranks(left), _ranks(right)
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(((a - a.mean()) * (b - b.mean())).mean() / (a.std() * b.std()))


def _ranks(values: Sequence[float]) -> np.ndarray:
    found = np.asarray(values, dtype=float)
    return np.array([(found < x).sum() + ((found == x).sum() - 1) / 2 for x in found])

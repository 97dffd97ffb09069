"""Several rewards of one response, weighted: score = sum of weight * part. The weighted sum is what is trained on and
what is logged as the score; the parts are logged beside it, unweighted."""

import math
from collections.abc import Mapping, Sequence


def weighted_scores(parts: Mapping[str, Sequence[float]], *, weights: Mapping[str, float]) -> list[float]:
    """One score a sample, of each part's scores in the samples' order. Every part needs its weight and the reverse."""
    if not parts:
        raise ValueError("no rewards to combine: name at least one")
    if set(parts) != set(weights):
        odd = ", ".join(sorted(set(parts) ^ set(weights)))
        raise ValueError(f"rewards and weights name different parts ({odd}): give each reward one weight")
    if not all(math.isfinite(weight) for weight in weights.values()):
        raise ValueError(f"reward weights are {dict(weights)}: make them finite")
    if len({len(scores) for scores in parts.values()}) > 1:
        lengths = ", ".join(f"{name}: {len(scores)}" for name, scores in parts.items())
        raise ValueError(f"rewards cover different numbers of samples ({lengths})")
    names = sorted(parts)  # one order of summation on every rank
    return [math.fsum(weights[name] * parts[name][i] for name in names) for i in range(len(parts[names[0]]))]

"""Several rewards of one response, weighted: score = sum of weight * part. The weighted sum is what is trained on and
what is logged as the score; the parts are logged beside it, unweighted."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from fusedrl.rewards.function import read_score

PART = "part/"  # before a part's name among the entries of a result


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


def weighted_function(
    functions: Mapping[str, Callable[..., Any]], *, weights: Mapping[str, float]
) -> Callable[..., dict[str, Any]]:
    """One function of several: its score is the weighted sum, its entries are theirs and each one's own score."""

    def combined(**arguments: Any) -> dict[str, Any]:
        parts, entries = {}, dict[str, Any]()
        for name, function in functions.items():
            parts[name], extra = read_score(function(**arguments))
            entries |= extra
        (score,) = weighted_scores({name: [part] for name, part in parts.items()}, weights=weights)
        return {**entries, **{PART + name: part for name, part in parts.items()}, "score": score}

    return combined


def parts_of(entries: Mapping[str, Any]) -> dict[str, float]:
    """Each part's own score, by name, among the entries of a result."""
    return {key.removeprefix(PART): value for key, value in entries.items() if key.startswith(PART)}


def part_means(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """reward/NAME/mean of each part, over the results that have it."""
    parts = [parts_of(each) for each in entries]
    found = {name: [each[name] for each in parts if name in each] for name in dict.fromkeys(chain(*parts))}
    return {f"reward/{name}/mean": math.fsum(scores) / len(scores) for name, scores in found.items()}

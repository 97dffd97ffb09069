"""What several responses to one prompt say together: mean, best, worst, majority, pass@k. Pure functions, exact.

    pass@k   1 - C(n - c, k) / C(n, k)     the chance that k of the n responses, drawn without putting back, hold one of
                                           the c right ones (Chen et al. 2021, arXiv 2107.03374, eq. 1)
    best@k   E[max of k draws]             drawn with putting back: what verl estimates by 1,000 random draws
    maj@n    the value of the answer that most responses give

Sums are of fractions and rounded once, so no order of the responses and no size of n changes a digit.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise
from math import comb, fsum, sqrt


def powers_of_two(n: int) -> list[int]:
    """2, 4, 8, .. below n, then n: the k's that are told of n responses, as verl has them; none of a single one."""
    return [] if n < 2 else [*(2**each for each in range(1, n.bit_length()) if 2**each < n), n]


@cache
def pass_at_k(n: int, right: int, k: int) -> float:
    """The unbiased estimate from n responses of which `right` are right."""
    if not 1 <= k <= n or not 0 <= right <= n:
        raise ValueError(f"pass@{k} of {n} responses, {right} of them right: needs 1 <= k <= n and 0 <= right <= n")
    return float(1 - Fraction(comb(n - right, k), comb(n, k)))


def mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """Standard deviation over the responses themselves (divided by n), as verl's std@n."""
    middle = mean(values)
    return sqrt(fsum((value - middle) ** 2 for value in values) / len(values))


def best_of(values: Sequence[float], k: int) -> float:
    """The expected highest of k draws."""
    counts = sorted(Counter(values).items())
    below = [0, *accumulate(count for _, count in counts)]  # responses at most as good
    weights = [high**k - low**k for low, high in pairwise(below)]
    total = sum((Fraction(value) * weight for (value, _), weight in zip(counts, weights, strict=True)), Fraction(0))
    return float(total / len(values) ** k)


def worst_of(values: Sequence[float], k: int) -> float:
    """The expected lowest of k draws."""
    return -best_of([-value for value in values], k)


def majority(values: Sequence[float], answers: Sequence[str | None]) -> float:
    """The mean value of the most frequent answer; of several such, their mean. Responses without an answer do not vote;
    where none has one, the mean of all."""
    groups: dict[str, list[float]] = {}
    for value, answer in zip(values, answers, strict=True):
        if answer is not None:
            groups.setdefault(answer, []).append(value)
    most = max(map(len, groups.values()), default=0)
    return mean([mean(each) for each in groups.values() if len(each) == most]) if groups else mean(values)

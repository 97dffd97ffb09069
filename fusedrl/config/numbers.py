"""Small arithmetic for messages that say what would fit."""

import math

MOST_TRIALS = 100_000


def divisors(number: int) -> list[int]:
    """1 .. number, those that divide it, in order; above MOST_TRIALS squared those with a small factor or co-factor."""
    low = [trial for trial in range(1, min(math.isqrt(number), MOST_TRIALS) + 1) if number % trial == 0]
    return sorted({*low, *(number // trial for trial in low)})


def common_divisors(*numbers: int) -> list[int]:
    return divisors(math.gcd(*numbers))


def listed(numbers: list[int], *, near: int, most: int = 6) -> str:
    """The `most` numbers nearest to `near`, as "1, 2 or 4"."""
    chosen = [str(number) for number in sorted(sorted(numbers, key=lambda number: abs(number - near))[:most])]
    return chosen[0] if len(chosen) == 1 else f"{', '.join(chosen[:-1])} or {chosen[-1]}"

"""Small arithmetic for messages that say what would fit."""

import math
from collections.abc import Sequence

MOST_TRIALS = 100_000


def counted(number: int, noun: str) -> str:
    """ "1 rank", "2 ranks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def divisors(number: int) -> list[int]:
    """1 .. number, those that divide it, in order; above MOST_TRIALS squared those with a small factor or co-factor."""
    low = [trial for trial in range(1, min(math.isqrt(number), MOST_TRIALS) + 1) if number % trial == 0]
    return sorted({*low, *(number // trial for trial in low)})


def common_divisors(*numbers: int) -> list[int]:
    return divisors(math.gcd(*numbers))


def listed(numbers: list[int], *, near: int, most: int = 6) -> str:
    """The `most` numbers nearest to `near`, as "1, 2 or 4"."""
    return listed_words([str(number) for number in sorted(sorted(numbers, key=lambda each: abs(each - near))[:most])])


def listed_words(words: Sequence[str]) -> str:
    """ "a, b or c"; nothing of nothing."""
    return " or ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)

"""Small arithmetic for messages that say what would fit."""


def divisors(number: int) -> list[int]:
    """1 .. number, those that divide it."""
    return [candidate for candidate in range(1, number + 1) if number % candidate == 0]


def common_divisors(*numbers: int) -> list[int]:
    return [candidate for candidate in divisors(numbers[0]) if all(number % candidate == 0 for number in numbers)]


def listed(numbers: list[int], *, near: int, most: int = 6) -> str:
    """The `most` numbers nearest to `near`, as "1, 2 or 4"."""
    chosen = [str(number) for number in sorted(sorted(numbers, key=lambda number: abs(number - near))[:most])]
    return chosen[0] if len(chosen) == 1 else f"{', '.join(chosen[:-1])} or {chosen[-1]}"

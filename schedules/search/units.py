"""Whole-number units for solvers that know no fractions.

A unit follows from the ratios of the numbers alone: a problem in seconds and the same in nanoseconds give the same
whole numbers. A number is whole where it is so up to 1e-10 of its value, well within what a check lets pass.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, lcm

_MOST = 2**32  # units of the largest number: thousands of them sum up within the 63 bits of CP-SAT
_ROUNDED = 2**28  # units of the largest number where none is exact
_FINEST = 10**6  # parts of the smallest number that a unit may be
_CLOSE = 1e-10


@dataclass(frozen=True)
class Unit:
    """Numbers divided by `size` are whole; where no unit makes them so, `exact` is false and they are rounded."""

    size: float
    exact: bool

    def up(self, value: float) -> int:
        """The number in whole units, rounded up unless it is whole; at least 1 where it is above 0."""
        near = self._near(value)
        return max(near, 1 if value > 0 else 0) if self._is_whole(value) else ceil(value / self.size)

    def down(self, value: float) -> int:
        """The number in whole units, rounded down unless it is whole."""
        return self._near(value) if self._is_whole(value) else floor(value / self.size)

    def _near(self, value: float) -> int:
        return round(value / self.size)

    def _is_whole(self, value: float) -> bool:
        return _close(value / self.size, self._near(value))


def unit_of(values: Iterable[float]) -> Unit:
    """The coarsest unit in which all values are whole, and none of them too large for a solver."""
    positive = sorted({value for value in values if value > 0})
    if not positive:
        return Unit(1.0, exact=True)
    largest = positive[-1]
    counted = [value for value in positive if value >= largest / _MOST]  # the rest is less than a solver can tell
    size = _common_part(counted)
    if size is None:
        return Unit(largest / _ROUNDED, exact=False)
    if len(counted) == len(positive):
        return Unit(size, exact=True)
    return Unit(size / max(1, _MOST // round(largest / size)), exact=False)


def _common_part(values: list[float]) -> float | None:
    """The largest number that all of the increasing values are multiples of; None where it would be too small."""
    parts = 1
    for value in values:
        ratio = value / values[0]
        near = Fraction(ratio).limit_denominator(_FINEST)
        parts = lcm(parts, near.denominator)
        if not _close(ratio, near) or values[-1] / values[0] * parts > _MOST:
            return None
    return values[0] / parts


def _close(value: float, whole: float | Fraction) -> bool:
    return abs(value - whole) <= _CLOSE * value

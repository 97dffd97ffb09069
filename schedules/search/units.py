"""Whole-number units for solvers that know no fractions."""

from collections.abc import Iterable
from dataclasses import dataclass

_SCALES = (1, 2, 4, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 10_000)
_MOST = 2.0**50  # units: sums of thousands of them stay within the 63 bits of CP-SAT


@dataclass(frozen=True)
class Unit:
    """Numbers times `scale` are whole; where no scale does that, `exact` is false and numbers are rounded up."""

    scale: float
    exact: bool

    def up(self, value: float) -> int:
        """The number in whole units, rounded up unless it is whole but for floating point."""
        scaled = value * self.scale
        near = round(scaled)
        return near if abs(scaled - near) < 1e-6 else int(scaled) + 1

    def down(self, value: float) -> int:
        """The number in whole units, rounded down."""
        scaled = value * self.scale
        near = round(scaled)
        return near if abs(scaled - near) < 1e-6 else int(scaled)


def unit_of(values: Iterable[float]) -> Unit:
    """The coarsest unit in which all values are whole, and none of them too large for a solver."""
    distinct = set(values)
    largest = max(distinct, default=0.0)
    for scale in _SCALES:
        if largest * scale > _MOST:
            return Unit(_MOST / largest, exact=False)
        if all(abs(v * scale - round(v * scale)) < 1e-6 for v in distinct):
            return Unit(scale, exact=True)
    return Unit(_SCALES[-1], exact=False)

"""Whole-number units for solvers that know no fractions."""

from collections.abc import Iterable
from dataclasses import dataclass

_SCALES = (1, 2, 4, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 10_000)


@dataclass(frozen=True)
class Unit:
    """Numbers times `scale` are whole; where no scale does that, `exact` is false and numbers are rounded up."""

    scale: int
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
    """The coarsest unit in which all values are whole."""
    distinct = set(values)
    for scale in _SCALES:
        if all(abs(v * scale - round(v * scale)) < 1e-6 for v in distinct):
            return Unit(scale, exact=True)
    return Unit(_SCALES[-1], exact=False)

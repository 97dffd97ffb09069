"""Measured seconds over a grid of sizes, and what is said of sizes between and beyond the measured ones.

    on a point          what was measured
    between points      linear in the logarithms of size and seconds, axis by axis
    beyond the last     the line through the last two points goes on; with one point, in proportion to the size
    before the first    the line through the first two, but not less than in proportion

More work never takes less: a line that falls is taken as flat.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

Point = tuple[float, ...]


@dataclass(frozen=True)
class Grid:
    """points: seconds (one number or several, such as F, B, W) at each of the sizes; all combinations are there."""

    axes: tuple[Point, ...]
    points: Mapping[Point, Point]

    @classmethod
    def of(cls, points: Mapping[Point, Point]) -> "Grid":
        """Raises ValueError where sizes are missing or are no amounts, or seconds are none."""
        if not points:
            raise ValueError("there is no point")
        axes = tuple(tuple(sorted(set(values))) for values in zip(*points, strict=True))
        if missing := [at for at in product(*axes) if at not in points]:
            raise ValueError(f"the point {list(missing[0])} is missing: all combinations of sizes are needed")
        numbers = [*(x for axis in axes for x in axis), *(x for seconds in points.values() for x in seconds)]
        if not all(math.isfinite(x) for x in numbers) or min(x for axis in axes for x in axis) <= 0:
            raise ValueError("sizes must be finite and above 0, and times finite")
        return cls(axes, points)

    def holds(self, at: Sequence[float]) -> bool:
        """Whether the sizes lie within the measured ones."""
        return all(axis[0] <= x <= axis[-1] for x, axis in zip(at, self.axes, strict=True))

    def __call__(self, *at: float) -> Point:
        """Seconds at these sizes."""
        return self._at(at, ())

    def _at(self, rest: Sequence[float], fixed: Point) -> Point:
        if not rest:
            return self.points[fixed]
        size, axis = rest[0], self.axes[len(fixed)]
        if size in axis:
            return self._at(rest[1:], (*fixed, size))
        if len(axis) == 1:
            return tuple(size / axis[0] * x for x in self._at(rest[1:], (*fixed, axis[0])))
        left = min(max(bisect_right(axis, size), 1), len(axis) - 1) - 1
        low, high = (self._at(rest[1:], (*fixed, axis[i])) for i in (left, left + 1))
        along = _between if axis[0] < size < axis[-1] else _beyond
        return tuple(along(size, axis[left], axis[left + 1], a, b) for a, b in zip(low, high, strict=True))


def _between(size: float, left: float, right: float, low: float, high: float) -> float:
    share = math.log(size / left) / math.log(right / left)
    if low <= 0 or high <= 0:  # too short for the clock
        return low + share * (high - low)
    return math.exp((1 - share) * math.log(low) + share * math.log(high))


def _beyond(size: float, left: float, right: float, low: float, high: float) -> float:
    slope = max(0.0, (high - low) / (right - left))
    return max(low + slope * (size - left), low * size / left) if size < left else high + slope * (size - right)

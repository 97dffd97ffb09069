"""The space of plans: units of work, the ways in which each may be done, and what a choice of ways comes to.

    step = generation phase + inference phase + training phase

    time     a phase's units start together; units that share ranks run one after the other, in the best order
    moves    before a unit runs, weights come from where their source trains; that time is the unit's
    memory   on each rank, in each phase: what units hold there, and the largest of what those of the phase need to run

A unit is a call, or several that run as one (actor's and critic's training in one fused pipeline). All sums are over
units in their order, so that the compiled kernel comes to the same float.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np

Array = np.ndarray
PHASES = ("generation", "inference", "training")


@dataclass(frozen=True, eq=False)
class Unit:
    """K ways to do one unit of work on the ranks first_K <= rank < end_K.

    phase: its number in PHASES. held_KP: bytes on each of its ranks in every phase, run or not. burst_K: bytes more
    while it runs.
    """

    name: str
    phase: int
    seconds_K: Array
    first_K: Array
    end_K: Array
    held_KP: Array
    burst_K: Array

    @property
    def ways(self) -> int:
        return len(self.seconds_K)

    def keep(self, kept_K: Array) -> "Unit":
        """With a part of its ways."""
        columns = (self.seconds_K, self.first_K, self.end_K, self.held_KP, self.burst_K)
        return Unit(self.name, self.phase, *(column[kept_K] for column in columns))


@dataclass(frozen=True, eq=False)
class Move:
    """Weights that go from unit `source` to unit `unit` before it runs. [way of the source, way of the unit]."""

    unit: int
    source: int
    seconds_SK: Array
    bytes_SK: Array


@dataclass(frozen=True)
class Outcome:
    """What a choice comes to. excess: bytes above the room on the fullest rank, or below it (negative)."""

    seconds: float
    excess: float

    @property
    def fits(self) -> bool:
        return self.excess <= 0


@dataclass(frozen=True, eq=False)
class Space:
    """Units, moves between them, and the room (bytes) of each rank."""

    ranks: int
    room: float
    units: tuple[Unit, ...]
    moves: tuple[Move, ...] = ()

    def __post_init__(self) -> None:
        for phase, name in enumerate(PHASES):
            count = sum(unit.phase == phase for unit in self.units)
            assert count <= 4, f"{count} units in {name}: all orders of them are tried"

    @cached_property
    def size(self) -> int:
        """How many choices there are."""
        size = 1
        for unit in self.units:
            size *= unit.ways
        return size

    def choices(self) -> Iterator[tuple[int, ...]]:
        """All of them: the way of each unit."""
        return (tuple(map(int, choice)) for choice in np.ndindex(*(unit.ways for unit in self.units)))

    def outcome(self, choice: Sequence[int]) -> Outcome:
        """Time and memory of a choice."""
        seconds = sum((self.span(choice, phase) for phase in range(len(PHASES))), 0.0)
        return Outcome(seconds, max(self.memory(choice).values(), default=0.0) - self.room)

    def duration(self, choice: Sequence[int], unit: int) -> float:
        """Seconds of a unit, its moves included."""
        seconds = float(self.units[unit].seconds_K[choice[unit]])
        for move in self.moves:
            if move.unit == unit:
                seconds += float(move.seconds_SK[choice[move.source], choice[unit]])
        return seconds

    def starts(self, choice: Sequence[int], phase: int) -> dict[int, float]:
        """When each unit of a phase starts, from the phase's beginning, in the best order."""
        units = [u for u, unit in enumerate(self.units) if unit.phase == phase]
        plans = [self._in_order(choice, order) for order in permutations(units)]
        return min(plans, key=lambda starts: self._end(choice, starts))

    def span(self, choice: Sequence[int], phase: int) -> float:
        """Seconds of a phase."""
        return self._end(choice, self.starts(choice, phase))

    def memory(self, choice: Sequence[int]) -> dict[tuple[int, int], float]:
        """(rank, phase) -> bytes: at ranks where some unit begins, since between them nothing changes."""
        firsts = {int(unit.first_K[choice[u]]) for u, unit in enumerate(self.units)}
        return {(rank, p): self._bytes(choice, rank, p) for rank in sorted(firsts) for p in range(len(PHASES))}

    def on(self, choice: Sequence[int], unit: int, rank: int) -> bool:
        """Whether a unit has a rank."""
        return bool(self.units[unit].first_K[choice[unit]] <= rank < self.units[unit].end_K[choice[unit]])

    def need(self, choice: Sequence[int], unit: int) -> float:
        """Bytes that a unit needs on a rank while it runs, beyond what it holds."""
        burst = float(self.units[unit].burst_K[choice[unit]])
        for move in self.moves:
            if move.unit == unit:
                burst += float(move.bytes_SK[choice[move.source], choice[unit]])
        return burst

    def _bytes(self, choice: Sequence[int], rank: int, phase: int) -> float:
        here = [u for u in range(len(self.units)) if self.on(choice, u, rank)]
        held = sum((float(self.units[u].held_KP[choice[u], phase]) for u in here), 0.0)
        return held + max((self.need(choice, u) for u in here if self.units[u].phase == phase), default=0.0)

    def _in_order(self, choice: Sequence[int], order: Sequence[int]) -> dict[int, float]:
        starts: dict[int, float] = {}
        for u in order:
            before = (starts[v] + self.duration(choice, v) for v in starts if self._meet(choice, u, v))
            starts[u] = max(before, default=0.0)
        return starts

    def _end(self, choice: Sequence[int], starts: dict[int, float]) -> float:
        return max((start + self.duration(choice, u) for u, start in starts.items()), default=0.0)

    def _meet(self, choice: Sequence[int], u: int, v: int) -> bool:
        a, b = self.units[u], self.units[v]
        i, j = choice[u], choice[v]
        return bool(a.first_K[i] < b.end_K[j] and b.first_K[j] < a.end_K[i])


def exhaustive(space: Space) -> tuple[tuple[int, ...], Outcome] | None:
    """The fastest choice that fits, by trying all of them; None where none fits. For small spaces."""
    best: tuple[tuple[int, ...], Outcome] | None = None
    for choice in space.choices():
        outcome = space.outcome(choice)
        if outcome.fits and (best is None or outcome.seconds < best[1].seconds):
            best = choice, outcome
    return best

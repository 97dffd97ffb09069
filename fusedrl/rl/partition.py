"""Parts of nearly equal sums: the largest differencing method (Karmarkar and Karp, 1982), for any number of parts.

    8 7 6 5 4 in two:   keep the two largest apart, again and again:  8|7  6|5  ->  13|13  and 4  ->  16|14

A partition starts as one state an item, the other parts empty. The two states of largest spread are joined, the fullest
part of one with the emptiest of the other, until one state is left. The spread never grows beyond the largest item.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class _Part:
    """The sum and the indices of some items."""

    total: float = 0
    items: tuple[int, ...] = ()

    def __add__(self, other: "_Part") -> "_Part":
        return _Part(self.total + other.total, self.items + other.items)


_State = tuple[float, int, list[_Part]]  # minus the spread, the first item (no two states share it), parts by sum


def karmarkar_karp(sizes: Sequence[float], *, parts: int, equal_size: bool = False) -> list[list[int]]:
    """Indices of each part, ascending; the part of the largest sum first. The same for the same sizes, always.

    Sizes are above 0. No part is empty where there are at least `parts` items. equal_size: parts of equally many items.
    Raises ValueError where `parts` is below 1 or cannot have equally many items.
    """
    if parts < 1:
        raise ValueError(f"parts={parts}: make it at least 1")
    if equal_size and len(sizes) % parts:
        raise ValueError(f"{len(sizes)} items cannot be {parts} parts of equally many; give a multiple of {parts}")
    if not sizes:
        return [[] for _ in range(parts)]
    states = [_state(state) for state in _first_states(sizes, parts=parts, each=parts if equal_size else 1)]
    heapq.heapify(states)
    while len(states) > 1:
        joined = _join(heapq.heappop(states), heapq.heappop(states))
        heapq.heappush(states, joined)
    return [sorted(part.items) for part in states[0][2]]


def _first_states(sizes: Sequence[float], *, parts: int, each: int) -> list[list[_Part]]:
    """`each` neighbours in the order of size, one to a part; the other parts empty."""
    order = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    groups = [order[begin : begin + each] for begin in range(0, len(order), each)]
    empty = [_Part()] * (parts - each)
    return [[*(_Part(sizes[i], (i,)) for i in group), *empty] for group in groups]


def _state(parts: list[_Part]) -> _State:
    ordered = sorted(parts, key=lambda part: (-part.total, part.items))
    first = min(item for part in parts for item in part.items)
    return ordered[-1].total - ordered[0].total, first, ordered


def _join(one: _State, other: _State) -> _State:
    return _state([a + b for a, b in zip(one[2], reversed(other[2]), strict=True)])

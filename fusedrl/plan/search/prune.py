"""Ways that the best choice never needs, since another on the same ranks is nowhere worse; and ways that never fit.

A way is dropped where another way of its unit on the same ranks takes no longer even where the moves that begin or end
there favour the first most, and holds and needs no more memory either. A choice that has the dropped way is then no
better than the same with the other one: seconds and bytes only grow with those of any unit.
"""

import numpy as np

from fusedrl.plan.search.space import Array, Move, Space, Unit


def prune(space: Space) -> tuple[Space, tuple[Array, ...]]:
    """The space without those ways, and for each unit the numbers of the ways that are left."""
    kept = tuple(_fitting(unit, room=space.room) for unit in space.units)
    space = keep(space, kept)
    better = tuple(_needed(space, u) for u in range(len(space.units)))
    return keep(space, better), tuple(ways[again] for ways, again in zip(kept, better, strict=True))


def keep(space: Space, kept: tuple[Array, ...]) -> Space:
    """With a part of each unit's ways."""
    units = tuple(unit.keep(kept[u]) for u, unit in enumerate(space.units))
    moves = tuple(
        Move(move.unit, move.source, *(table[np.ix_(kept[move.source], kept[move.unit])] for table in _tables(move)))
        for move in space.moves
    )
    return Space(space.ranks, space.room, units, moves)


def _tables(move: Move) -> tuple[Array, Array]:
    return move.seconds_SK, move.bytes_SK


def _fitting(unit: Unit, *, room: float) -> Array:
    """Ways that fit where nothing else is."""
    needed = unit.held_KP.copy()
    needed[:, unit.phase] += unit.burst_K
    return np.flatnonzero(needed.max(axis=1) <= room)


def _needed(space: Space, u: int) -> Array:
    """Ways of a unit that no other one makes needless; of two that are alike one."""
    unit = space.units[u]
    bytes_KC, seconds_KC = _profile(space, u)
    dropped = np.zeros(unit.ways, dtype=bool)
    for mesh in sorted(set(zip(unit.first_K.tolist(), unit.end_K.tolist(), strict=True))):
        here = np.flatnonzero((unit.first_K == mesh[0]) & (unit.end_K == mesh[1]))
        for k in here:
            rivals = here[~dropped[here] & (here != k)]
            no_more = (bytes_KC[rivals] <= bytes_KC[k]).all(axis=1)
            no_later = (seconds_KC[rivals] <= seconds_KC[k]).all(axis=1)
            dropped[k] = bool((no_more & no_later).any())
    return np.flatnonzero(~dropped)


def _profile(space: Space, u: int) -> tuple[Array, Array]:
    """[way, ...] all bytes and all seconds that hang on the way: its own, with every way of the moves' other ends."""
    unit = space.units[u]
    bytes_, seconds = [unit.held_KP, unit.burst_K[:, None]], [unit.seconds_K[:, None]]
    for move in space.moves:
        if move.unit == u:
            bytes_.append(unit.burst_K[:, None] + move.bytes_SK.T)
            seconds.append(unit.seconds_K[:, None] + move.seconds_SK.T)
        if move.source == u:
            bytes_.append(move.bytes_SK)
            seconds.append(unit.seconds_K[:, None] + move.seconds_SK)
    return np.concatenate(bytes_, axis=1), np.concatenate(seconds, axis=1)

"""Which samples move where when few are left (RLHFuse, section on inter-stage fusion).

The m instances with the most unfinished samples stay: so the fewest samples move. More than m stay where m cannot hold
the tail, each at most `rows` samples: what its key-value memory takes without slower decoding (StreamCosts).

    unfinished    i0: 1   i1: 4   i2: 0   i3: 2      m = 1  ->  i0 -> i1: 1,  i3 -> i1: 2
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """Samples that leave one instance for another."""

    source: int
    destination: int
    sample_ids: tuple[int, ...]


def choose_destinations(loads: Mapping[int, int], *, keep: int, rows: int) -> list[int]:
    """The instances that stay, most unfinished samples first (ties: smaller number); those without samples never do.

    `keep` of them, or as many as it takes to hold all samples with `rows` each. An instance that holds more than `rows`
    already keeps what it has.
    """
    ranked = sorted((each for each in loads if loads[each]), key=lambda each: (-loads[each], each))
    total = sum(loads.values())
    for count in range(max(keep, 1), len(ranked)):
        if sum(max(rows, loads[each]) for each in ranked[:count]) >= total:
            return ranked[:count]
    return ranked


def plan_moves(samples: Mapping[int, Sequence[int]], *, keep: int, rows: int) -> list[Move]:
    """The moves that leave the tail on the chosen destinations, evenly; none where all must stay.

    `samples`: unfinished sample ids of each instance.
    """
    loads = {instance: len(ids) for instance, ids in samples.items()}
    stay = choose_destinations(loads, keep=keep, rows=rows)
    moving: dict[tuple[int, int], list[int]] = {}
    for source in sorted(set(samples) - set(stay)):
        for sample_id in samples[source]:
            destination = min(stay, key=lambda each: (loads[each], each))
            loads[destination] += 1
            moving.setdefault((source, destination), []).append(sample_id)
    return [Move(source, destination, tuple(ids)) for (source, destination), ids in moving.items()]

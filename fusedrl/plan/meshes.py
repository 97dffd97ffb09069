"""Sets of ranks that a call may run on: whole nodes side by side, or a power of two of one node's devices.

    4 nodes of 8       0-31   0-15 16-31   0-7 8-15 16-23 24-31   0-3 4-7 ...   0-23 (3 nodes)   8-31 (the other end)

As in ReaL (arXiv 2406.14088, section 4), but for where runs of nodes begin: at a multiple of their length or so that
they end with the cluster, which leaves every way to cut the cluster in two and drops copies of the same cut.
"""

import re
from dataclasses import dataclass

_RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True, order=True)
class Mesh:
    """Ranks first, first + 1, ... of which there are `count`."""

    first: int
    count: int

    @property
    def end(self) -> int:
        """The rank after the last."""
        return self.first + self.count

    @property
    def ranks(self) -> range:
        return range(self.first, self.end)

    def meets(self, other: "Mesh") -> bool:
        """Whether some rank is of both."""
        return self.first < other.end and other.first < self.end

    def __str__(self) -> str:
        return f"{self.first}-{self.end - 1}"

    @staticmethod
    def read(text: str) -> "Mesh":
        """Of its text, 8-15."""
        match = _RANGE.fullmatch(text)
        if match is None or int(match[2]) < int(match[1]):
            raise ValueError(f"ranks {text!r}: write FIRST-LAST, such as 0-7")
        return Mesh(int(match[1]), int(match[2]) - int(match[1]) + 1)


def meshes(*, nodes: int, devices: int, smallest: int = 1) -> tuple[Mesh, ...]:
    """All meshes of a cluster with at least `smallest` ranks, the largest first."""
    runs = {(first, count) for count in range(1, nodes + 1) for first in _starts(nodes, count)}
    found = {Mesh(first * devices, count * devices) for first, count in runs}
    for size in (size for size in range(1, devices) if size & (size - 1) == 0 and devices % size == 0):
        found |= {Mesh(first, size) for first in range(0, nodes * devices, size)}
    kept = [mesh for mesh in found if mesh.count >= smallest]
    return tuple(sorted(kept, key=lambda mesh: (-mesh.count, mesh.first)))


def _starts(nodes: int, count: int) -> list[int]:
    return sorted({*range(0, nodes - count + 1, count), nodes - count})

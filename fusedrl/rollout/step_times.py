"""What work takes, by its size: decode steps by rows, prefills and inference by tokens, scores by calls.

    ("decode", class of rows)  ("prefill", 0)  ("infer", task)  ("score", 0)  ->  sums of counts, sizes, milliseconds

Classes of rows double (1, 2-3, 4-7, ...). `to_rows` and `absorb` carry the sums from rank to rank as plain values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Key = tuple[str, int | str]


@dataclass
class Sums:
    """Over `count` pieces of work: their sizes (rows or tokens) and milliseconds."""

    count: float = 0.0
    size: float = 0.0
    ms: float = 0.0


@dataclass
class StepTimes:
    """Measured so far."""

    sums: dict[Key, Sums] = field(default_factory=dict)

    def decoded(self, rows: int, *, ms: float) -> None:
        """One decode step."""
        self._add(("decode", rows.bit_length()), size=rows, ms=ms)

    def prefilled(self, tokens: int, *, ms: float) -> None:
        self._add(("prefill", 0), size=tokens, ms=ms)

    def inferred(self, task: str, tokens: int, *, ms: float) -> None:
        self._add(("infer", task), size=tokens, ms=ms)

    def scored(self, *, ms: float) -> None:
        """One call of the reward function."""
        self._add(("score", 0), size=1, ms=ms)

    def _add(self, key: Key, *, size: int, ms: float) -> None:
        if size:
            self.absorb([[*key, 1, size, ms]])

    def absorb(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add what `to_rows` of another rank told."""
        for kind, name, count, size, ms in rows:
            sums = self.sums.setdefault((kind, name), Sums())
            sums.count, sums.size, sums.ms = sums.count + count, sums.size + size, sums.ms + ms

    def to_rows(self) -> list[list[Any]]:
        return [[*key, each.count, each.size, each.ms] for key, each in self.sums.items()]

    def fade(self, share: float) -> None:
        """What was measured so far counts for this share from now on."""
        for each in self.sums.values():
            each.count, each.size, each.ms = share * each.count, share * each.size, share * each.ms

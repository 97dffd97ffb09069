"""Which rows a step takes: seeded, without repetition within an epoch, resumable, the same on every rank.

    sampler = RowSampler(size=1000, seed=0, shuffle=True)
    sampler.next(64) -> indices;  state = sampler.state_dict();  other.load_state_dict(state)

Epochs run on into each other: a batch may hold the end of one and the start of the next, so no row is dropped.
"""

from collections.abc import Mapping

import torch


class RowSampler:
    """`position` counts the rows given out since the start; the epoch and the place in it follow from it."""

    def __init__(self, *, size: int, seed: int, shuffle: bool) -> None:
        if size < 1:
            raise ValueError("no rows to sample from: data.train_files or data.task gave none")
        self.size, self.seed, self.shuffle = size, seed, shuffle
        self.position = 0
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    @property
    def epoch(self) -> int:
        """Epochs completed."""
        return self.position // self.size

    def next(self, count: int) -> list[int]:
        """The next `count` row indices."""
        indices = []
        for _ in range(count):
            epoch, place = divmod(self.position, self.size)
            indices.append(int(self._order_of(epoch)[place]))
            self.position += 1
        return indices

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position, "size": self.size, "seed": self.seed, "shuffle": int(self.shuffle)}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on where another sampler of the same rows stood. ValueError where the rows or the seed differ."""
        own = self.state_dict()
        differing = [
            f"{key} {state[key]} saved, {own[key]} now" for key in ("size", "seed", "shuffle") if state[key] != own[key]
        ]
        if differing:
            raise ValueError(f"the sampler cannot be resumed: {'; '.join(differing)}")
        self.position = state["position"]

    def _order_of(self, epoch: int) -> torch.Tensor:
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
            self._order = torch.randperm(self.size, generator=generator) if self.shuffle else torch.arange(self.size)
            self._epoch = epoch
        return self._order

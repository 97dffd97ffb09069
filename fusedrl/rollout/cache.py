"""The slotted key-value cache: a pool of token places, cut into rows of equal capacity; one row a sample.

One tensor holds keys and values of all layers, [layer, place, group, key|value, head_dim]: a token's keys and values of
one layer lie together and are written by one copy. Row r owns places r * capacity ... (r + 1) * capacity - 1. Live
samples always occupy the first rows (`move` fills the gaps that finished ones leave), so a decode step reads a plain
slice and never gathers. What lies beyond a row's length is stale, finite and masked by its reader.

    capacity 4   [aaa.][bbb.][cccc]            pool of 12 places
    capacity 6   [aaa...][bbb...]              a longer row: rows are moved apart, within the pool; fewer fit

With a budget (`tokens`) the pool is taken whole on first use and never grows; without one it grows with its rows.
`rows_for(length)` tells how many rows a length leaves room for; whoever seats rows gives some up first (lane.py).

Legend: L layers, R rows, T positions, N tokens, G key-value groups (of this tensor-parallel rank), D head_dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 16  # capacities are multiples of it where the pool is short
_FIRST_CAPACITY = 64  # else they start here and double


@dataclass(frozen=True)
class CacheShape:
    """What one rank caches for one token, and how many tokens at most. tokens: the budget; None: rows x max_length."""

    layers: int
    rows: int
    max_length: int
    groups: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device | str = "cpu"
    tokens: int | None = None

    @property
    def token_bytes(self) -> int:
        return self.layers * self.groups * 2 * self.head_dim * self.dtype.itemsize

    def empty(self, tokens: int) -> Tensor:
        """kv_LNG2D, not filled."""
        size = (self.layers, tokens, self.groups, 2, self.head_dim)
        return torch.empty(size, dtype=self.dtype, device=self.device)


class KeyValueCache:
    """Keys and values of all layers; memory is taken on first use and given back by `release`."""

    def __init__(self, shape: CacheShape) -> None:
        if shape.tokens is not None and shape.tokens < shape.max_length:
            raise ValueError(f"a cache of {shape.tokens} tokens holds no row of max_length={shape.max_length}")
        self.shape = shape
        self.capacity = 0  # positions per row
        self._limit = shape.rows * shape.max_length if shape.tokens is None else shape.tokens
        self._pool: Tensor | None = None  # kv_LNG2D

    @property
    def bytes(self) -> int:
        return 0 if self._pool is None else self._pool.numel() * self._pool.element_size()

    def rows_for(self, length: int) -> int:
        """Rows that fit when the longest of them has `length` positions; at least 1."""
        return min(self.shape.rows, self._limit // self._tight(length))

    def arrange(self, *, rows: int, length: int, kept: int = 0) -> None:
        """Make room for `rows` rows of `length` positions; the contents of the first `kept` rows survive."""
        if length > self.shape.max_length:
            raise ValueError(f"a row of {length} tokens exceeds the engine's max_length={self.shape.max_length}")
        assert rows <= self.rows_for(length), f"{rows} rows of {length} tokens exceed the {self._limit} of the cache"
        if length <= self.capacity and rows * self.capacity <= self._limit:
            return
        share = self._limit // max(rows, 1) // BLOCK * BLOCK
        roomy = self._roomy(length)
        capacity = roomy if rows * roomy <= self._limit else max(share, self._tight(length))
        places = self.shape.tokens or self.shape.rows * capacity
        if self._pool is None or self._pool.shape[1] < places:
            self._grow(places, capacity=capacity, kept=kept)
        else:
            self._spread(capacity, kept=kept)
        self.capacity = capacity

    def append(self, layer: int, *, flat_R: Tensor, keys_values_RG2D: Tensor) -> None:
        """Write one token a row; `flat_R` is row * capacity + position."""
        self._layer(layer).index_copy_(0, flat_R, keys_values_RG2D)

    def write_rows(self, layer: int, *, first_row: int, keys_values_RTG2D: Tensor) -> None:
        """Write the first T positions of consecutive rows."""
        rows, length = keys_values_RTG2D.shape[:2]
        self._rows(layer, first_row + rows)[first_row:, :length] = keys_values_RTG2D

    def read(self, layer: int, *, rows: int, length: int) -> tuple[Tensor, Tensor]:
        """(keys_RGTD, values_RGTD): views of the first `rows` rows and `length` positions."""
        view_RTG2D = self._rows(layer, rows)[:, :length]
        return view_RTG2D[:, :, :, 0].transpose(1, 2), view_RTG2D[:, :, :, 1].transpose(1, 2)

    def move(self, *, source: Tensor, target: Tensor, length: int) -> None:
        """Copy the first `length` positions of rows `source` onto rows `target`, in all layers."""
        assert self._pool is not None
        rows = self._pool.shape[1] // self.capacity
        rows_LRTG2D = self._pool[:, : rows * self.capacity].unflatten(1, (rows, self.capacity))
        rows_LRTG2D[:, target, :length] = rows_LRTG2D[:, source, :length]

    def pack(self, rows: Sequence[int], *, lengths: Sequence[int]) -> Tensor:
        """kv_LNG2D: a copy of the first `lengths[i]` positions of rows[i], one row after the other."""
        if not rows:
            return self.shape.empty(0)
        return torch.cat([self._span(row, length) for row, length in zip(rows, lengths, strict=True)], dim=1)

    def unpack(self, row: int, kv_LNG2D: Tensor) -> None:
        """Write a row's first N positions, as packed."""
        self._span(row, kv_LNG2D.shape[1]).copy_(kv_LNG2D)

    def release(self) -> None:
        """Give the memory back; nothing cached survives."""
        self._pool, self.capacity = None, 0

    def _layer(self, layer: int) -> Tensor:
        assert self._pool is not None, "arrange() comes first"
        return self._pool[layer]

    def _rows(self, layer: int, rows: int) -> Tensor:
        """kv_RTG2D of the first rows."""
        return self._layer(layer)[: rows * self.capacity].unflatten(0, (rows, self.capacity))

    def _span(self, row: int, length: int, *, capacity: int | None = None) -> Tensor:
        assert self._pool is not None, "arrange() comes first"
        start = row * (capacity or self.capacity)
        return self._pool[:, start : start + length]

    def _tight(self, length: int) -> int:
        return min(-(-max(length, 1) // BLOCK) * BLOCK, self.shape.max_length)

    def _roomy(self, length: int) -> int:
        capacity = max(self.capacity, _FIRST_CAPACITY)
        while capacity < length:
            capacity *= 2
        return min(capacity, self.shape.max_length)

    def _grow(self, places: int, *, capacity: int, kept: int) -> None:
        before, s = self._pool, self.shape
        # zeros, not empty: attention multiplies stale values by weight 0, and 0 * NaN is NaN
        pool = torch.zeros(s.layers, places, s.groups, 2, s.head_dim, dtype=s.dtype, device=s.device)
        if before is not None:
            old, new = kept * self.capacity, kept * capacity
            taken = min(capacity, self.capacity)
            pool[:, :new].unflatten(1, (kept, capacity))[:, :, :taken] = before[:, :old].unflatten(
                1, (kept, self.capacity)
            )[:, :, :taken]
        self._pool = pool

    def _spread(self, capacity: int, *, kept: int) -> None:
        """Move rows apart or together in place, such that no row is written over before it has moved."""
        taken = min(capacity, self.capacity)
        order = range(kept - 1, 0, -1) if capacity > self.capacity else range(1, kept)
        for row in order if capacity != self.capacity else ():
            copy = self._span(row, taken).clone()  # a row may overlap its own new place
            self._span(row, taken, capacity=capacity).copy_(copy)

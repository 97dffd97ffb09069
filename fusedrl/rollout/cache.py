"""The slotted key-value cache: one row a sample, each row with its own length.

One tensor holds keys and values of all layers, [layer, row, position, group, key|value, head_dim]: a token's keys and
values of one layer lie together and are written by one copy. Live samples always occupy the first rows (`move` fills
the gaps that finished ones leave), so a decode step reads a plain slice and never gathers. The position axis starts
small and doubles when a longer sample comes. What lies beyond a row's length is stale, finite and masked by its reader.

Legend: R rows, T positions, G key-value groups (of this tensor-parallel rank), D head_dim.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_FIRST_CAPACITY = 64


@dataclass(frozen=True)
class CacheShape:
    """What one rank caches for one token, and how many tokens at most."""

    layers: int
    rows: int
    max_length: int
    groups: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device | str = "cpu"


class KeyValueCache:
    """Keys and values of all layers; memory is taken on first use and given back by `release`."""

    def __init__(self, shape: CacheShape) -> None:
        self.shape = shape
        self._data: Tensor | None = None

    @property
    def capacity(self) -> int:
        """Positions per row that memory is held for."""
        return 0 if self._data is None else self._data.shape[2]

    @property
    def bytes(self) -> int:
        return 0 if self._data is None else self._data.numel() * self._data.element_size()

    def reserve(self, length: int) -> None:
        """Make room for `length` positions in every row."""
        if length > self.shape.max_length:
            raise ValueError(f"a row of {length} tokens exceeds the engine's max_length={self.shape.max_length}")
        if length <= self.capacity:
            return
        capacity = self.capacity or _FIRST_CAPACITY
        while capacity < length:
            capacity *= 2
        self._grow(min(capacity, self.shape.max_length))

    def append(self, layer: int, *, flat_R: Tensor, keys_values_RG2D: Tensor) -> None:
        """Write one token a row; `flat_R` is row * capacity + position."""
        layer_NG2D = self._layer(layer).flatten(0, 1)
        layer_NG2D.index_copy_(0, flat_R, keys_values_RG2D)

    def write_rows(self, layer: int, *, first_row: int, keys_values_RTG2D: Tensor) -> None:
        """Write the first T positions of consecutive rows."""
        rows, length = keys_values_RTG2D.shape[:2]
        self._layer(layer)[first_row : first_row + rows, :length] = keys_values_RTG2D

    def read(self, layer: int, *, rows: int, length: int) -> tuple[Tensor, Tensor]:
        """(keys_RGTD, values_RGTD): views of the first `rows` rows and `length` positions."""
        view_RTG2D = self._layer(layer)[:rows, :length]
        return view_RTG2D[:, :, :, 0].transpose(1, 2), view_RTG2D[:, :, :, 1].transpose(1, 2)

    def move(self, *, source: Tensor, target: Tensor, length: int) -> None:
        """Copy the first `length` positions of rows `source` onto rows `target`, in all layers."""
        assert self._data is not None
        self._data[:, target, :length] = self._data[:, source, :length]

    def release(self) -> None:
        """Give the memory back; nothing cached survives."""
        self._data = None

    def _layer(self, layer: int) -> Tensor:
        assert self._data is not None, "reserve() comes first"
        return self._data[layer]

    def _grow(self, capacity: int) -> None:
        s = self.shape
        # zeros, not empty: attention multiplies stale values by weight 0, and 0 * NaN is NaN
        data = torch.zeros(s.layers, s.rows, capacity, s.groups, 2, s.head_dim, dtype=s.dtype, device=s.device)
        if self._data is not None:
            data[:, :, : self.capacity] = self._data
        self._data = data

"""Keys and values of samples on their way to another engine: one packed tensor, one message for each rank.

    requests, cache = engine.extract(ids, with_cache=True)        there:  other.add(requests, cache=cache)

Each rank of a replica packs its own layers and key-value groups; its counterpart in an engine of the same layout takes
them. Who receives makes room with `CachedTokens.empty(lengths, shape=engine.cache_shape)` and fills `kv_LNG2D`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fusedrl.rollout.cache import CacheShape


@dataclass(frozen=True, eq=False)
class CachedTokens:
    """lengths: sample id -> its tokens in kv_LNG2D, in the order in which they lie there."""

    lengths: Mapping[int, int]
    kv_LNG2D: Tensor

    @staticmethod
    def empty(lengths: Mapping[int, int], *, shape: CacheShape) -> "CachedTokens":
        """Room for these samples, to receive into."""
        return CachedTokens(dict(lengths), shape.empty(sum(lengths.values())))

    @property
    def bytes(self) -> int:
        """What this rank sends."""
        return self.kv_LNG2D.numel() * self.kv_LNG2D.element_size()

    def of(self, sample_id: int) -> Tensor:
        """kv_LNG2D of one sample, a view."""
        start = 0
        for other, length in self.lengths.items():
            if other == sample_id:
                return self.kv_LNG2D[:, start : start + length]
            start += length
        raise KeyError(sample_id)

    def only(self, sample_ids: Collection[int]) -> "CachedTokens":
        """A packed copy of some of the samples: one engine's share."""
        lengths = {sample_id: n for sample_id, n in self.lengths.items() if sample_id in sample_ids}
        parts = [self.of(sample_id) for sample_id in lengths]
        return CachedTokens(lengths, torch.cat(parts, dim=1) if parts else self.kv_LNG2D[:, :0].clone())

    def check(self, shape: CacheShape) -> None:
        """Raise ValueError unless an engine with this cache can take the samples."""
        found, tokens = tuple(self.kv_LNG2D.shape), sum(self.lengths.values())
        wanted = (shape.layers, tokens, shape.groups, 2, shape.head_dim)
        if found != wanted or self.kv_LNG2D.dtype != shape.dtype:
            raise ValueError(
                f"cached tokens of shape {found} ({self.kv_LNG2D.dtype}) do not fit this engine, which takes {wanted} "
                f"({shape.dtype}) for {tokens} tokens: move them between engines of one model and layout, or let add() "
                "prefill the requests anew"
            )

"""Layouts and the rank map: rank = tp_i + tp * (cp_i + cp * (dp_i + dp * pp_i)), Megatron's order tp-cp-dp-pp.

    Layout(tp=2, pp=2, dp=1):   rank  0 1 | 2 3
                                tp_i  0 1 | 0 1
                                pp_i  0 0 | 1 1      the tensor-parallel pair sits side by side, stages far apart

tp ranks share each layer, pp ranks the layers, cp ranks the tokens of a row, dp ranks the rows of a batch.
No torch here: configs are checked with it before any process starts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Layout:
    """Tensor-, pipeline-, data- and context-parallel size of one model."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "dp", "cp"):
            size = getattr(self, name)
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"layout size {name}={size!r} must be a whole number, 1 or more")

    @classmethod
    def for_world(cls, world: int, *, tp: int = 1, pp: int = 1, cp: int = 1, key: str = "model") -> "Layout":
        """The layout that fills `world` ranks: dp is what remains. `key` is the config key named in the error."""
        if world % (tp * cp * pp):
            context = f"context_parallel_size {cp} x " if cp > 1 else ""
            raise ValueError(
                f"{key}: tensor_model_parallel_size {tp} x {context}pipeline_model_parallel_size {pp} = {tp * cp * pp} "
                f"does not divide the {world} ranks"
            )
        return cls(tp=tp, pp=pp, dp=world // (tp * cp * pp), cp=cp)

    @property
    def world(self) -> int:
        return self.tp * self.cp * self.pp * self.dp

    def rank(self, *, tp_i: int = 0, dp_i: int = 0, pp_i: int = 0, cp_i: int = 0) -> int:
        """Global rank at these coordinates."""
        rank = tp_i + self.tp * (cp_i + self.cp * (dp_i + self.dp * pp_i))
        assert self.coords(rank) == (tp_i, dp_i, pp_i, cp_i), f"({tp_i}, {dp_i}, {pp_i}, {cp_i}) is outside {self}"
        return rank

    def coords(self, rank: int) -> tuple[int, int, int, int]:
        """(tp_i, dp_i, pp_i, cp_i) of a global rank."""
        assert 0 <= rank < self.world, f"rank {rank} is outside {self}"
        replica = self.tp * self.cp  # ranks of one stage of one replica
        return rank % self.tp, rank // replica % self.dp, rank // (replica * self.dp), rank // self.tp % self.cp

    def rank_lists(self, axes: str) -> Iterator[tuple[int, ...]]:
        """The groups that span `axes` (words of "tp cp dp pp"), each sorted, in one order that all ranks share.

        Layout(tp=2, pp=2).rank_lists("pp") -> (0, 2), (1, 3)
        """
        spanned = axes.split()
        sizes = {"tp": self.tp, "cp": self.cp, "dp": self.dp, "pp": self.pp}
        assert set(spanned) <= set(sizes), axes
        fixed = [axis for axis in sizes if axis not in spanned]
        for place in product(*(range(sizes[axis]) for axis in fixed)):
            at = {f"{axis}_i": index for axis, index in zip(fixed, place, strict=True)}
            members = product(*(range(sizes[axis]) for axis in spanned))
            yield tuple(
                sorted(self.rank(**at, **{f"{a}_i": i for a, i in zip(spanned, m, strict=True)}) for m in members)
            )


def check_world(layout: Layout, world: int, *, key: str) -> None:
    """Raise unless the layout fills exactly the ranks there are."""
    if layout.world != world:
        context = f"context {layout.cp} x " if layout.cp > 1 else ""
        raise ValueError(
            f"{key}: tensor {layout.tp} x {context}pipeline {layout.pp} x data {layout.dp} = {layout.world} ranks, but "
            f"the job has {world}; start {layout.world} ranks or change {key}.*_parallel_size"
        )

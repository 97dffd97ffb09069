"""A metric over micro-batches and ranks: sums travel, means are taken once at the end.

    stats = {"response_length": Stat.of(lengths_B)}
    stats = all_reduce(stats)                       # over data-parallel ranks
    metrics = summary("response_length", stats["response_length"])     # .../mean, .../max, .../min

A mean of means would weigh a short micro-batch like a long one.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.parallel.team import current


@dataclass(frozen=True)
class Stat:
    """Sum, count and extremes of numbers; the default is that of no numbers, so a rank without any can take part."""

    total: float = 0.0
    count: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")

    @staticmethod
    def of(values: Tensor, mask: Tensor | None = None) -> "Stat":
        """Of the entries of `values` where `mask` is not 0, summed in float64."""
        chosen = (values if mask is None else values[mask != 0]).detach().double()
        if chosen.numel() == 0:
            return Stat()
        return Stat(chosen.sum().item(), float(chosen.numel()), chosen.min().item(), chosen.max().item())

    def __add__(self, other: "Stat") -> "Stat":
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Stat(self.total + other.total, self.count + other.count, low, high)

    @property
    def mean(self) -> float:
        """NaN where there are no numbers."""
        return self.total / self.count if self.count else float("nan")


def means(stats: Mapping[str, Stat]) -> dict[str, float]:
    return {name: stat.mean for name, stat in stats.items()}


def summary(name: str, stat: Stat) -> dict[str, float]:
    """verl's three metrics of a quantity; NaN where there are no numbers."""
    empty = float("nan")
    low, high = (stat.low, stat.high) if stat.count else (empty, empty)
    return {f"{name}/mean": stat.mean, f"{name}/max": high, f"{name}/min": low}


def all_reduce(stats: Mapping[str, Stat], *, group: dist.ProcessGroup | None = None) -> dict[str, Stat]:
    """Each stat over all ranks of `group`, by default the current team's. Every rank names the same stats, with
    Stat() where it has no numbers.

    Raises ValueError on all ranks where the names differ; a plain collective would hang there.
    """
    names, group = sorted(stats), group or current().group
    _check_names(names, group=group)
    if not names:
        return {}
    sums = torch.tensor([[stats[n].total, stats[n].count] for n in names], dtype=torch.float64)
    extremes = torch.tensor([[-stats[n].low, stats[n].high] for n in names], dtype=torch.float64)
    device = _device(group)
    sums, extremes = sums.to(device), extremes.to(device)
    dist.all_reduce(sums, op=dist.ReduceOp.SUM, group=group)
    dist.all_reduce(extremes, op=dist.ReduceOp.MAX, group=group)
    rows = zip(names, sums.tolist(), extremes.tolist(), strict=True)
    return {name: Stat(total, count, -low, high) for name, (total, count), (low, high) in rows}


def _check_names(names: list[str], *, group: dist.ProcessGroup | None) -> None:
    digest = float(zlib.crc32("\n".join(names).encode()))
    both = torch.tensor([digest, -digest], dtype=torch.float64, device=_device(group))
    dist.all_reduce(both, op=dist.ReduceOp.MAX, group=group)
    if both[0].item() != -both[1].item():
        raise ValueError(f"metrics differ between ranks; this rank has {', '.join(names)}")


def _device(group: dist.ProcessGroup | None) -> str:
    return "cuda" if dist.get_backend(group) == "nccl" else "cpu"

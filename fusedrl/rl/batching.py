"""How a step's samples are cut: samples -> mini-batches (an optimizer step each) -> ranks -> micro-batches.

    samples 64, mini-batch 32, dp 2, micro-batch 4:  2 mini-batches x 2 ranks x 4 micro-batches of 4 samples

All sizes count *samples*, never prompts. Each must divide the one it is cut from: a remainder would be dropped or would
weigh more than its share, so it is an error that names the keys. Rows are named by indices; nothing is copied here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class BatchSizes:
    """The sizes of one model's update; `role` (actor, critic) names its config keys in errors."""

    samples: int  # of the step: prompts x responses each
    mini_batch: int  # over all data-parallel ranks
    micro_batch: int  # on one rank
    dp: int
    role: str = "actor"

    def __post_init__(self) -> None:
        mini_key, micro_key = f"{self.role}.ppo_mini_batch_size", f"{self.role}.ppo_micro_batch_size_per_gpu"
        samples_key = "data.train_batch_size x rollout.n"
        sizes = {samples_key: self.samples, mini_key: self.mini_batch, micro_key: self.micro_batch, "dp": self.dp}
        for key, size in sizes.items():
            if size < 1:
                raise ValueError(f"{key} is {size}: make it at least 1")
        require_multiple(self.samples, of=self.mini_batch, key=samples_key, of_key=mini_key)
        require_multiple(self.mini_batch, of=self.dp, key=mini_key, of_key="the data-parallel size")
        share_key = f"{mini_key} / data-parallel size ({self.mini_batch} / {self.dp})"
        require_multiple(self.mini_batch // self.dp, of=self.micro_batch, key=share_key, of_key=micro_key)

    @property
    def mini_batches(self) -> int:
        return self.samples // self.mini_batch

    @property
    def mini_batch_per_rank(self) -> int:
        return self.mini_batch // self.dp

    @property
    def micro_batches(self) -> int:
        """Micro-batches of one mini-batch on one rank."""
        return self.mini_batch_per_rank // self.micro_batch


def require_multiple(size: int, *, of: int, key: str, of_key: str) -> None:
    """ValueError naming both keys, the numbers and the nearest sizes that would do."""
    if size % of:
        below, above = size // of * of, -(-size // of) * of
        nearest = f"{below} or {above}" if below else f"{above}"
        raise ValueError(f"{key} is {size}, not a multiple of {of_key} ({of}): take {nearest}, or change {of_key}")


def shuffled(size: int, *, seed: int, epoch: int) -> Tensor:
    """A permutation of range(size), the same on all ranks, another one each epoch."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(size, generator=generator)


def mini_batches(order_N: Tensor, sizes: BatchSizes) -> list[Tensor]:
    """Indices [mini_batch] of each mini-batch, in the order of the optimizer steps."""
    if len(order_N) != sizes.samples:
        raise ValueError(f"{len(order_N)} samples to cut, but the sizes were made for {sizes.samples}")
    return list(order_N.split(sizes.mini_batch))


def rank_share(mini_batch_N: Tensor, sizes: BatchSizes, *, dp_rank: int) -> Tensor:
    """Indices of the rows of a mini-batch that data-parallel rank `dp_rank` works on."""
    return mini_batch_N.view(sizes.dp, sizes.mini_batch_per_rank)[dp_rank]


def micro_batches(share_N: Tensor, sizes: BatchSizes) -> list[Tensor]:
    """Indices [micro_batch] of each micro-batch of a rank's share."""
    return list(share_N.split(sizes.micro_batch))


def take(fields: Mapping[str, Tensor], rows_N: Tensor) -> dict[str, Tensor]:
    """The rows of every field, in the order asked for."""
    return {name: field[rows_N] for name, field in fields.items()}


def restore_order(pieces: Sequence[Tensor], rows: Sequence[Tensor]) -> Tensor:
    """Undo `take` over pieces: row i of the result is the one whose index was i, whatever order the pieces came in."""
    rows_N, joined = torch.cat(list(rows)), torch.cat(list(pieces))
    if not torch.equal(rows_N.sort().values, torch.arange(len(rows_N), device=rows_N.device)):
        raise ValueError(f"rows are no permutation of 0..{len(rows_N) - 1}: one is lost or doubled")
    restored = torch.empty_like(joined)
    restored[rows_N] = joined
    return restored

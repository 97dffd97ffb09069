"""A micro-batch: rows of tokens laid out as [prompt | response | padding], and the per-row tensors of its loss.

Rows are padded on the right. Causal attention then never lets a real token see padding, so a stage needs no padding
mask, and the position of a token is its index. What padding computes is left out by the loss, by length.

Shapes: B rows, T tokens (padded length; it may differ between micro-batches).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """tokens_BT (int64) and named tensors whose first dimension is B. All pipeline ranks of a replica hold the same.

    lengths: of each row, without padding; by default T.
    """

    tokens_BT: Tensor
    fields: Mapping[str, Tensor] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.tokens_BT.dim() != 2 or self.tokens_BT.numel() == 0:
            raise ValueError(f"micro-batch: tokens must be a non-empty [B, T], got {list(self.tokens_BT.shape)}")
        if not self.lengths:
            object.__setattr__(self, "lengths", (self.length,) * self.rows)
        if len(self.lengths) != self.rows or min(self.lengths) < 1 or max(self.lengths) > self.length:
            raise ValueError(f"micro-batch: row lengths {self.lengths} do not fit tokens {list(self.tokens_BT.shape)}")
        for name, value in self.fields.items():
            if value.shape[0] != self.rows:
                raise ValueError(f"micro-batch: field {name} has {value.shape[0]} rows, tokens have {self.rows}")

    @property
    def rows(self) -> int:
        return self.tokens_BT.shape[0]

    @property
    def length(self) -> int:
        """The padded length T."""
        return self.tokens_BT.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.length

    def position_ids_BT(self) -> Tensor:
        return torch.arange(self.length, device=self.tokens_BT.device).expand(self.rows, -1)

    def __getitem__(self, name: str) -> Tensor:
        return self.fields[name]


def cut_microbatches(
    tokens_BT: Tensor, *, lengths_B: Tensor, rows: int, fields: Mapping[str, Tensor] | None = None, multiple: int = 1
) -> list[MicroBatch]:
    """Consecutive groups of `rows` rows, as `gather_microbatches` has them. The last group may have fewer rows."""
    if rows < 1:
        raise ValueError(f"micro-batch: rows={rows}, must be at least 1")
    groups = torch.arange(len(tokens_BT)).split(rows)
    return gather_microbatches(tokens_BT, lengths_B=lengths_B, groups=groups, fields=fields, multiple=multiple)


def gather_microbatches(
    tokens_BT: Tensor,
    *,
    lengths_B: Tensor,
    groups: Sequence[Tensor],
    fields: Mapping[str, Tensor] | None = None,
    multiple: int = 1,
    device: torch.device | None = None,
) -> list[MicroBatch]:
    """A micro-batch of the rows of each group, trimmed to its longest row (rounded up to `multiple`).

    Fields whose second dimension is T are trimmed alike. Numbers of rows and lengths may differ between groups.
    """
    full = tokens_BT.shape[1]
    pieces = []
    for rows in groups:
        longest = int(lengths_B[rows].max())
        length = min(full, -(-longest // multiple) * multiple)
        trimmed = {name: _trim(x[rows], full=full, length=length).to(device) for name, x in (fields or {}).items()}
        tokens = tokens_BT[rows, :length].contiguous().to(device)
        pieces.append(MicroBatch(tokens, trimmed, tuple(lengths_B[rows].tolist())))
    return pieces


def _trim(value: Tensor, *, full: int, length: int) -> Tensor:
    has_tokens = value.dim() > 1 and value.shape[1] == full
    return value[:, :length].contiguous() if has_tokens else value


def shapes_of(microbatches: Sequence[MicroBatch]) -> tuple[tuple[int, int], ...]:
    """(B, T) of each, the form in which plans are told about them."""
    return tuple(microbatch.shape for microbatch in microbatches)

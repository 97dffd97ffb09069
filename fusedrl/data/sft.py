"""SFT rows: prompt, answer and end token as one row, labels on the answer and the end.

Shapes: B rows, S tokens of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Example:
    """tokens of prompt and answer together; the answer begins at `start`."""

    tokens: tuple[int, ...]
    start: int


@dataclass(frozen=True, eq=False)
class Batch:
    """tokens_BS right padded; label_mask_BS true at tokens that are learnt (not yet moved to the places that predict
    them); lengths_B without padding."""

    tokens_BS: Tensor
    label_mask_BS: Tensor
    lengths_B: Tensor


def collate(examples: Sequence[Example], *, pad_id: int) -> Batch:
    """A batch, padded to its longest example. Masks come from lengths."""
    lengths_B = torch.tensor([len(example.tokens) for example in examples])
    width = int(lengths_B.max())
    tokens = [[*example.tokens, *[pad_id] * (width - len(example.tokens))] for example in examples]
    starts_B = torch.tensor([example.start for example in examples])
    positions_S = torch.arange(width)
    mask_BS = (positions_S >= starts_B[:, None]) & (positions_S < lengths_B[:, None])
    return Batch(torch.tensor(tokens, dtype=torch.int64), mask_BS, lengths_B)

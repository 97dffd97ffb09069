"""How the rows of a micro-batch lie in a model's stages: which tokens a rank's output holds, and back to rows.

    WholeRows      [B, T]   every row, padded to the longest
    SharedRows     [B, C]   context parallelism: this rank's share of each row (fusedrl.parallel.context)
    PackedRows     [1, N]   rows end to end, without padding

A loss or a collect computes one result a token on what the output holds, with these tokens' own targets, and spreads
the results to [B, T]:

    logp_BT = tokens.spread(token_log_probs(output, next_tokens(tokens, batch), ...), batch)

On context-parallel ranks all compute the same loss from the same [B, T], and each passes the gradient of its own tokens
back: gradients of parameters are then parts of one sum over tokens, which is taken over data- and context-parallel
ranks together.

Shapes: B rows, T tokens of the longest, C a share of a row, N tokens of all rows together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from fusedrl.parallel.context import gather_results, share_positions
from fusedrl.pipeline.microbatch import MicroBatch


class TokenForm(Protocol):
    """One way to lay rows out. `multiple`: tokens come in multiples of it."""

    def shape(self, batch: MicroBatch) -> tuple[int, int]:
        """(rows, tokens) of what this rank's stages compute on."""

    def enter(self, values_BT: Tensor, batch: MicroBatch) -> Tensor:
        """A value a token, [B, T] -> [rows, tokens]."""

    def leave(self, output: Tensor, batch: MicroBatch) -> Tensor:
        """A last stage's output, [rows, tokens, ...], without what was added for the stages' sake."""

    def spread(self, results: Tensor, batch: MicroBatch) -> Tensor:
        """A result for each token of an output -> [B, T]; differentiable. Padding has any value."""

    def planned(self, batch: MicroBatch) -> tuple[float, float]:
        """(rows, length) as plans count them: their product is the tokens, tokens x length what attention compares."""


def planned_shapes(form: TokenForm, batches: Sequence[MicroBatch]) -> tuple[tuple[float, float], ...]:
    """Of each micro-batch, the form in which plans are told about them."""
    return tuple(form.planned(batch) for batch in batches)


def next_tokens(form: TokenForm, batch: MicroBatch) -> Tensor:
    """For each token of an output the one after it in its row; after the last token of all, 0."""
    return form.leave(form.enter(pad(batch.tokens_BT[:, 1:], (0, 1)), batch), batch)


@dataclass(frozen=True)
class WholeRows:
    multiple: int = 1

    def shape(self, batch: MicroBatch) -> tuple[int, int]:
        return batch.rows, rounded(batch.length, self.multiple)

    def enter(self, values_BT: Tensor, batch: MicroBatch) -> Tensor:
        return _padded(values_BT, self.shape(batch)[1])

    def leave(self, output: Tensor, batch: MicroBatch) -> Tensor:
        return output[:, : batch.length].contiguous() if output.shape[1] > batch.length else output

    def spread(self, results: Tensor, batch: MicroBatch) -> Tensor:
        return results

    def planned(self, batch: MicroBatch) -> tuple[float, float]:
        return batch.rows, rounded(batch.length, self.multiple)


@dataclass(frozen=True, eq=False)
class SharedRows:
    """multiple: of a whole row's tokens, itself a multiple of twice the group's size. `spread` is collective."""

    group: dist.ProcessGroup
    multiple: int

    def shape(self, batch: MicroBatch) -> tuple[int, int]:
        return batch.rows, rounded(batch.length, self.multiple) // self.group.size()

    def enter(self, values_BT: Tensor, batch: MicroBatch) -> Tensor:
        return _padded(values_BT, rounded(batch.length, self.multiple))[:, self.positions(batch)]

    def positions(self, batch: MicroBatch) -> Tensor:
        """[C], of this rank's tokens."""
        size, rank, device = self.group.size(), self.group.rank(), batch.tokens_BT.device
        return share_positions(rounded(batch.length, self.multiple), size=size, rank=rank, device=device)

    def leave(self, output: Tensor, batch: MicroBatch) -> Tensor:
        return output

    def spread(self, results: Tensor, batch: MicroBatch) -> Tensor:
        return gather_results(results, group=self.group)[:, : batch.length]

    def planned(self, batch: MicroBatch) -> tuple[float, float]:
        return batch.rows, rounded(batch.length, self.multiple)


@dataclass(frozen=True)
class PackedRows:
    """No token is padding but those that fill the last multiple: a row of their own, which nothing reads."""

    multiple: int = 1

    def shape(self, batch: MicroBatch) -> tuple[int, int]:
        return 1, rounded(sum(batch.lengths), self.multiple)

    def enter(self, values_BT: Tensor, batch: MicroBatch) -> Tensor:
        return _padded(values_BT.flatten()[None, self._places(batch)], self.shape(batch)[1])

    def leave(self, output: Tensor, batch: MicroBatch) -> Tensor:
        return output

    def spread(self, results: Tensor, batch: MicroBatch) -> Tensor:
        places_N = self._places(batch)
        flat = results.new_zeros(batch.rows * batch.length).index_copy(0, places_N, results[0, : len(places_N)])
        return flat.view(batch.shape)

    def planned(self, batch: MicroBatch) -> tuple[float, float]:
        """The rows of one length that have as many tokens, and as many pairs of them, as these of many."""
        tokens, pairs = sum(batch.lengths), sum(length * length for length in batch.lengths)
        return tokens * tokens / pairs, pairs / tokens

    def ends(self, batch: MicroBatch) -> Tensor:
        """[rows + 1] int32: where each row begins, and where the last one ends."""
        return _ends(self._rows(batch), device=batch.tokens_BT.device)

    def longest(self, batch: MicroBatch) -> int:
        return max(self._rows(batch))

    def _rows(self, batch: MicroBatch) -> tuple[int, ...]:
        """Their lengths, the one that fills the last multiple among them."""
        fill = self.shape(batch)[1] - sum(batch.lengths)
        return (*batch.lengths, fill) if fill else batch.lengths

    def _places(self, batch: MicroBatch) -> Tensor:
        return _places(batch.lengths, batch.length, device=batch.tokens_BT.device)


@lru_cache(maxsize=256)
def _places(lengths: tuple[int, ...], width: int, *, device: torch.device) -> Tensor:
    """[N]: where the tokens of rows of these lengths stand among all B x T."""
    held_BT = torch.arange(width)[None] < torch.tensor(lengths)[:, None]
    return held_BT.flatten().nonzero()[:, 0].to(device)


@lru_cache(maxsize=256)
def _ends(lengths: tuple[int, ...], *, device: torch.device) -> Tensor:
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)


def _padded(values_BT: Tensor, length: int) -> Tensor:
    return pad(values_BT, (0, length - values_BT.shape[1])) if length > values_BT.shape[1] else values_BT


def rounded(length: int, multiple: int) -> int:
    """The length up to the next multiple."""
    return -(-length // multiple) * multiple

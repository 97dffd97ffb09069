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

from dataclasses import dataclass
from typing import Protocol

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


def _padded(values_BT: Tensor, length: int) -> Tensor:
    return pad(values_BT, (0, length - values_BT.shape[1])) if length > values_BT.shape[1] else values_BT


def rounded(length: int, multiple: int) -> int:
    """The length up to the next multiple."""
    return -(-length // multiple) * multiple

"""Log-probabilities and entropy over a vocabulary that tensor-parallel ranks hold in slices.

    log p(target) = logit[target] / temperature - logsumexp(logits / temperature)
    H             = logsumexp - sum(p * logits / temperature)

The work goes over chunks of tokens: what is kept for backward is the logits as they came and one float32 number or two
a token, never a float32 copy of all logits. Two small all-reduces a call (maximum; sums), none in backward. Rows of the
padded vocabulary count as minus infinity.

Shapes: B samples, T tokens, V this rank's slice of the padded vocabulary. N = B x T.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

CHUNK_BYTES = 32 << 20  # of float32 logits at a time


def token_log_probs(
    logits_BTV: Tensor,
    targets_BT: Tensor,
    *,
    tp_group: dist.ProcessGroup | None,
    vocab_size: int,
    temperature: float = 1.0,
) -> Tensor:
    """Log-probability of each target [B, T] in float32, differentiable in the logits; equal on all tp ranks.

    targets are global token ids below vocab_size; logits at position t must be those that predict targets[:, t].
    """
    shard = _Shard(tp_group, logits_BTV, vocab_size=vocab_size, temperature=temperature)
    logp_N = _TokenLogProbs.apply(logits_BTV.flatten(0, -2), targets_BT.flatten(), shard)
    return logp_N.view(targets_BT.shape)


def entropy(
    logits_BTV: Tensor, *, tp_group: dist.ProcessGroup | None, vocab_size: int, temperature: float = 1.0
) -> Tensor:
    """Entropy of each token's distribution [B, T] in float32, differentiable; equal on all tp ranks."""
    shard = _Shard(tp_group, logits_BTV, vocab_size=vocab_size, temperature=temperature)
    return _Entropy.apply(logits_BTV.flatten(0, -2), shard).view(logits_BTV.shape[:-1])


class _Shard:
    """Which tokens of the vocabulary this rank holds, and how its logits are read."""

    def __init__(self, group: dist.ProcessGroup | None, logits: Tensor, *, vocab_size: int, temperature: float) -> None:
        if temperature <= 0:
            raise ValueError(f"temperature={temperature} must be above 0")
        self.group = group if group is not None and group.size() > 1 else None
        self.width = logits.shape[-1]
        self.start = self.group.rank() * self.width if self.group else 0
        self.real = max(0, min(vocab_size - self.start, self.width))  # columns that are no padding
        self.temperature = temperature
        self.dtype = torch.promote_types(logits.dtype, torch.float32)
        total = self.width * (self.group.size() if self.group else 1)
        assert vocab_size <= total, f"vocabulary {vocab_size} exceeds the {total} logits of all tensor-parallel ranks"

    def chunks(self, count: int) -> Iterator[slice]:
        size = max(1, CHUNK_BYTES // (4 * self.width))
        yield from (slice(first, min(first + size, count)) for first in range(0, count, size))

    def scaled(self, logits_NV: Tensor) -> Tensor:
        """Real columns in float32, divided by the temperature."""
        return logits_NV[:, : self.real].to(self.dtype) / self.temperature

    def reduce(self, tensor: Tensor, op: Any) -> Tensor:
        if self.group:
            dist.all_reduce(tensor, op=op, group=self.group)
        return tensor

    def maximum(self, logits_NV: Tensor) -> Tensor:
        """Greatest scaled logit of each token over all ranks."""
        maximum_N = logits_NV.new_full((len(logits_NV),), -torch.inf, dtype=self.dtype)
        if self.real:
            for part in self.chunks(len(logits_NV)):
                maximum_N[part] = self.scaled(logits_NV[part]).amax(-1)
        return self.reduce(maximum_N, dist.ReduceOp.MAX)

    def sums(self, logits_NV: Tensor, terms: "Callable[[Tensor, slice], list[Tensor]]", count: int) -> Tensor:
        """[count, N]: each term computed chunk by chunk from scaled logits, summed over all ranks."""
        sums_CN = logits_NV.new_zeros(count, len(logits_NV), dtype=self.dtype)
        if self.real:
            for part in self.chunks(len(logits_NV)):
                sums_CN[:, part] = torch.stack(terms(self.scaled(logits_NV[part]), part))
        return self.reduce(sums_CN, dist.ReduceOp.SUM)

    def gradient(self, logits_NV: Tensor, of_chunk: "Callable[[Tensor, slice], Tensor]") -> Tensor:
        """Gradient of the logits, in their own dtype, from that of the scaled logits; 0 on padding."""
        gradient_NV = torch.zeros_like(logits_NV)
        if self.real:
            for part in self.chunks(len(logits_NV)):
                scaled = of_chunk(self.scaled(logits_NV[part]), part)
                gradient_NV[part, : self.real] = (scaled / self.temperature).to(logits_NV.dtype)
        return gradient_NV

    def own(self, targets_N: Tensor) -> tuple[Tensor, Tensor]:
        """(local column of each target, whether this rank holds it); column 0 where it does not."""
        local_N = targets_N - self.start
        mine_N = (local_N >= 0) & (local_N < self.real)
        return local_N.where(mine_N, 0), mine_N


class _TokenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, targets_N: Tensor, shard: _Shard) -> Tensor:
        local_N, mine_N = shard.own(targets_N)
        maximum_N = shard.maximum(logits_NV)

        def terms(x_NV: Tensor, part: slice) -> list[Tensor]:
            target = x_NV.gather(-1, local_N[part, None])[:, 0].where(mine_N[part], 0)
            return [(x_NV - maximum_N[part, None]).exp().sum(-1), target]

        total_N, target_N = shard.sums(logits_NV, terms, 2)
        logsumexp_N = maximum_N + total_N.log()
        ctx.save_for_backward(logits_NV, local_N, mine_N, logsumexp_N)
        ctx.shard = shard
        return target_N - logsumexp_N

    @staticmethod
    def backward(ctx: Any, upstream_N: Tensor) -> tuple[Tensor, None, None]:
        """d logp / d logit_j = [j is the target] - p_j."""
        logits_NV, local_N, mine_N, logsumexp_N = ctx.saved_tensors

        def of_chunk(x_NV: Tensor, part: slice) -> Tensor:
            gradient = -(x_NV - logsumexp_N[part, None]).exp()
            gradient.scatter_add_(-1, local_N[part, None], mine_N[part, None].to(gradient.dtype))
            return gradient * upstream_N[part, None]

        return ctx.shard.gradient(logits_NV, of_chunk), None, None


class _Entropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, shard: _Shard) -> Tensor:
        maximum_N = shard.maximum(logits_NV)

        def terms(x_NV: Tensor, part: slice) -> list[Tensor]:
            weights = (x_NV - maximum_N[part, None]).exp()
            return [weights.sum(-1), (weights * x_NV).sum(-1)]

        total_N, weighted_N = shard.sums(logits_NV, terms, 2)
        logsumexp_N = maximum_N + total_N.log()
        entropy_N = logsumexp_N - weighted_N / total_N
        ctx.save_for_backward(logits_NV, logsumexp_N, entropy_N)
        ctx.shard = shard
        return entropy_N

    @staticmethod
    def backward(ctx: Any, upstream_N: Tensor) -> tuple[Tensor, None]:
        """d H / d logit_j = -p_j (log p_j + H)."""
        logits_NV, logsumexp_N, entropy_N = ctx.saved_tensors

        def of_chunk(x_NV: Tensor, part: slice) -> Tensor:
            logp = x_NV - logsumexp_N[part, None]
            return -logp.exp() * (logp + entropy_N[part, None]) * upstream_N[part, None]

        return ctx.shard.gradient(logits_NV, of_chunk), None

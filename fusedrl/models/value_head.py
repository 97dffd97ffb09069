"""The critic's output layer: hidden -> one number a token, held whole by every tensor-parallel rank.

It stands where a language model has its vocabulary projection (`output_layer`), so DDP, the optimizer, the
learning-rate schedule and checkpoints treat it like any weight. Hidden states are the same on all tensor-parallel
ranks, so is the gradient: nothing is reduced over tp, and the gradient norm counts it on tp rank 0 only.

Shapes: S tokens, B samples, H hidden.
"""

import torch
import torch.distributed as dist
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
from torch import Tensor, nn


class ValueHead(nn.Module):
    """Linear map without bias; starts at zero, so a fresh critic predicts 0 everywhere.

    gather_over: with sequence parallelism, the tensor-parallel ranks that share the tokens. Each computes all values.
    """

    def __init__(self, hidden_size: int, *, dtype: torch.dtype, gather_over: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        self._gather_over = gather_over
        self.weight = nn.Parameter(torch.zeros(1, hidden_size, dtype=dtype))

    def forward(
        self, hidden_SBH: Tensor, weight: Tensor | None = None, runtime_gather_output: bool | None = None
    ) -> tuple[Tensor, None]:
        """Values [S, B, 1] and no bias: the signature and result of Megatron's ColumnParallelLinear."""
        if self._gather_over is not None:
            hidden_SBH = gather_from_sequence_parallel_region(
                hidden_SBH, tensor_parallel_output_grad=False, group=self._gather_over
            )
        return nn.functional.linear(hidden_SBH, self.weight), None

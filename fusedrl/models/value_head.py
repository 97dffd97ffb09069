"""The critic's output layer: hidden -> one number a token, held whole by every tensor-parallel rank.

It stands where a language model has its vocabulary projection (`output_layer`), so DDP, the optimizer, the
learning-rate schedule and checkpoints treat it like any weight. Hidden states are the same on all tensor-parallel
ranks, so is the gradient: nothing is reduced over tp, and the gradient norm counts it on tp rank 0 only.

Shapes: S tokens, B samples, H hidden.
"""

import torch
from torch import Tensor, nn


class ValueHead(nn.Module):
    """Linear map without bias; starts at zero, so a fresh critic predicts 0 everywhere."""

    def __init__(self, hidden_size: int, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, hidden_size, dtype=dtype))

    def forward(
        self, hidden_SBH: Tensor, weight: Tensor | None = None, runtime_gather_output: bool | None = None
    ) -> tuple[Tensor, None]:
        """Values [S, B, 1] and no bias: the signature and result of Megatron's ColumnParallelLinear."""
        return nn.functional.linear(hidden_SBH, self.weight), None

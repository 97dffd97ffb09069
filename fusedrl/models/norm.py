"""RMSNorm of Megatron's local layers, with sequence parallelism, too, which Megatron's wrapper of torch's refuses.

With sequence parallelism each tensor-parallel rank normalises its part of the tokens, so the weight's gradient is a
part, as well: the mark tells Megatron to sum it over tensor-parallel ranks when gradients are finalized.
"""

from typing import Any

from torch import nn


class LocalNorm:
    """Called as Megatron calls a norm of a layer spec; what it makes is torch's RMSNorm."""

    def __new__(cls, config: Any, hidden_size: int, eps: float = 1e-5, **unused: Any) -> nn.RMSNorm:
        assert config.normalization == "RMSNorm", config.normalization
        norm = nn.RMSNorm(hidden_size, eps=eps)
        norm.weight.sequence_parallel = config.sequence_parallel
        return norm

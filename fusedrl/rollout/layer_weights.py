"""The live parameters of one transformer layer, and what its experts make of tokens, for `decoder.CachedDecoder`.

Experts work as Megatron's do: tokens sorted by expert, weighted between an expert's two matrices, added up per token in
the sequence of the experts.

Legend: N tokens, H hidden, E experts, K experts of a token, M = N x K tokens sorted by expert, F an expert's width on
this tensor-parallel rank.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class ExpertWeights:
    """first, second: the matrices of each expert; normalized: whether the weights of a token's experts add up to 1."""

    router_EH: Tensor
    first: tuple[Tensor, ...]
    second: tuple[Tensor, ...]
    per_token: int
    normalized: bool

    @staticmethod
    def of(layer: Any) -> "ExpertWeights":
        experts, config = layer.experts.local_experts, layer.config
        return ExpertWeights(
            router_EH=layer.router.weight,
            first=tuple(expert.linear_fc1.weight for expert in experts),
            second=tuple(expert.linear_fc2.weight for expert in experts),
            per_token=config.moe_router_topk,
            normalized=not config.moe_router_pre_softmax,
        )

    def output(self, hidden_NH: Tensor, *, activate: Callable[[Tensor], Tensor]) -> Tensor:
        """[N, H]: this tensor-parallel rank's part of each token's weighted sum. activate: from the first to the second
        matrix."""
        weight_NK, expert_NK = self._route(hidden_NH)
        order_M = expert_NK.flatten().argsort(stable=True)
        counts = expert_NK.flatten().bincount(minlength=len(self.first)).tolist()
        token_M, weight_M1 = order_M // self.per_token, weight_NK.flatten()[order_M, None]
        parts = zip(hidden_NH[token_M].split(counts), weight_M1.split(counts), self.first, self.second, strict=True)
        outputs = [F.linear(activate(F.linear(x, first)) * weight, second) for x, weight, first, second in parts]
        return torch.zeros_like(hidden_NH).index_add_(0, token_M, torch.cat(outputs))

    def _route(self, hidden_NH: Tensor) -> tuple[Tensor, Tensor]:
        """(weight_NK, expert_NK)."""
        scores_NE = F.linear(hidden_NH, self.router_EH)
        if self.normalized:
            score_NK, expert_NK = scores_NE.topk(self.per_token)
            return score_NK.softmax(-1, dtype=torch.float32).to(scores_NE), expert_NK
        weight_NK, expert_NK = scores_NE.softmax(-1, dtype=torch.float32).to(scores_NE).topk(self.per_token)
        return weight_NK, expert_NK


@dataclass(frozen=True)
class LayerWeights:
    """fc1, fc2: of a dense layer; experts: of one that has them."""

    input_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    proj: Tensor
    proj_bias: Tensor | None
    mlp_norm: Tensor
    fc1: Tensor | None = None
    fc1_bias: Tensor | None = None
    fc2: Tensor | None = None
    fc2_bias: Tensor | None = None
    experts: ExpertWeights | None = None

    @staticmethod
    def of(layer: Any) -> "LayerWeights":
        attention, mlp = layer.self_attention, layer.mlp
        return LayerWeights(
            input_norm=_norm_before(layer.input_layernorm, attention.linear_qkv),
            qkv=attention.linear_qkv.weight,
            qkv_bias=_bias(attention.linear_qkv),
            query_norm=getattr(attention.q_layernorm, "weight", None),
            key_norm=getattr(attention.k_layernorm, "weight", None),
            proj=attention.linear_proj.weight,
            proj_bias=_bias(attention.linear_proj),
            **_after_attention(layer.pre_mlp_layernorm, mlp),
        )


def _after_attention(norm: Any, mlp: Any) -> dict[str, Any]:
    if hasattr(mlp, "router"):
        return {"mlp_norm": norm.weight, "experts": ExpertWeights.of(mlp)}
    return {
        "mlp_norm": _norm_before(norm, mlp.linear_fc1),
        "fc1": mlp.linear_fc1.weight,
        "fc1_bias": _bias(mlp.linear_fc1),
        "fc2": mlp.linear_fc2.weight,
        "fc2_bias": _bias(mlp.linear_fc2),
    }


def _norm_before(norm: Any, linear: Any) -> Tensor:
    """The norm's weight, wherever it lives: Transformer Engine fuses it into the linear layer that follows."""
    fused = getattr(linear, "layer_norm_weight", None)
    return norm.weight if fused is None else fused


def _bias(linear: Any) -> Tensor | None:
    """The bias, or None: Transformer Engine keeps an empty tensor where there is none."""
    bias = getattr(linear, "bias", None)
    return bias if isinstance(bias, Tensor) and bias.numel() else None

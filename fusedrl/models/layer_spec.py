"""Which modules a stage's layers are made of, and what Megatron's config says of their experts.

Layers with experts are Megatron's MoELayer over a list of feed-forward networks, each cut over tensor-parallel ranks as
a dense one; tokens are gathered over those ranks, sorted by expert, and nothing is dropped.
"""

from typing import Any

from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_layer_local_spec,
    get_gpt_layer_with_transformer_engine_spec,
)
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig

from fusedrl.models.architecture import Architecture
from fusedrl.models.attention import GatheringAttention, PackedAttention
from fusedrl.models.experts import Experts
from fusedrl.models.implementation import Chosen
from fusedrl.models.norm import LocalNorm


def layer_spec(
    arch: Architecture, chosen: Chosen, *, config: TransformerConfig, layers: range, packed: bool
) -> ModuleSpec | TransformerBlockSubmodules:
    """layers: of the stage, counted over the whole model."""
    if chosen.transformer_engine:
        assert arch.experts is None, "layers with experts are local ones"
        return get_gpt_layer_with_transformer_engine_spec(qk_layernorm=arch.qk_norm)
    kinds = {count: _local(arch, config=config, experts=count, packed=packed) for count in _counts(arch, layers)}
    return TransformerBlockSubmodules(
        layer_specs=[kinds[count] for count in _counts(arch, layers)], layer_norm=LocalNorm
    )


def _counts(arch: Architecture, layers: range) -> list[int | None]:
    """Experts of each layer; None of a dense one."""
    with_experts = arch.expert_layers(layers)
    return [arch.experts.count if arch.experts and layer in with_experts else None for layer in layers]


def _local(arch: Architecture, *, config: TransformerConfig, experts: int | None, packed: bool) -> ModuleSpec:
    """Norms are named: with apex installed Megatron would take apex's, which is no RMSNorm."""
    layer = get_gpt_layer_local_spec(num_experts=experts, qk_layernorm=arch.qk_norm, normalization="RMSNorm")
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = LocalNorm
    attention = layer.submodules.self_attention.submodules
    if config.context_parallel_size > 1:
        attention.core_attention = GatheringAttention
    if packed:
        attention.core_attention = PackedAttention
    if arch.qk_norm:
        attention.q_layernorm = attention.k_layernorm = LocalNorm
    return layer


def expert_settings(experts: Experts | None) -> dict[str, Any]:
    """Of a TransformerConfig. Scores are computed as Hugging Face does: in the model's type, their softmax in float32.

    The largest scores are the largest probabilities; those of a token's experts, if they add up to 1, are a softmax
    over their scores alone.
    """
    if experts is None:
        return {}
    return {
        "num_moe_experts": experts.count,
        "moe_ffn_hidden_size": experts.ffn_hidden_size,
        "moe_router_topk": experts.per_token,
        "moe_router_pre_softmax": not experts.normalized,
        "moe_router_score_function": "softmax",
        "moe_router_load_balancing_type": "none",
        "moe_aux_loss_coeff": 0.0,
        "moe_token_dispatcher_type": "allgather",
        "moe_grouped_gemm": False,
    }

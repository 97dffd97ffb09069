"""How each Megatron weight is made of Hugging Face weights, and how tensor parallelism cuts it: pure functions.

    kind        Megatron's local weight (tp rank r of n)                                  Hugging Face
    rows        rows r of n                                                               one tensor
    columns     columns r of n                                                            one tensor
    whole       all of it                                                                 one tensor
    vocabulary  rows r of n of the padded table (padding rows are zero)                   one tensor, not padded
    gate_up     [gate rows r; up rows r]                                                  gate, up
    qkv         groups r of n; a group is its query heads, its key head, its value head   q, k, v

Weights and biases go by the same rules (a bias is a weight without columns).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fusedrl.models.architecture import Architecture

# Megatron's name inside a layer -> (kind, Hugging Face names inside a layer)
LAYER = {
    "input_layernorm": ("whole", ("input_layernorm",)),
    "self_attention.linear_qkv": ("qkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    "self_attention.q_layernorm": ("whole", ("self_attn.q_norm",)),
    "self_attention.k_layernorm": ("whole", ("self_attn.k_norm",)),
    "self_attention.linear_proj": ("columns", ("self_attn.o_proj",)),
    "pre_mlp_layernorm": ("whole", ("post_attention_layernorm",)),
    "mlp.linear_fc1": ("gate_up", ("mlp.gate_proj", "mlp.up_proj")),
    "mlp.linear_fc2": ("columns", ("mlp.down_proj",)),
    "mlp.router": ("whole", ("mlp.gate",)),
}
EXPERT = re.compile(r"mlp\.experts\.local_experts\.(\d+)\.(linear_fc[12])")  # each like a feed-forward network
# Transformer Engine fuses a norm into the linear layer behind it, under this name
FUSED_NORMS = {
    "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
    "mlp.linear_fc1.layer_norm_weight": "pre_mlp_layernorm.weight",
}
PARTITION_DIM = {"rows": 0, "columns": 1, "vocabulary": 0, "gate_up": 0, "qkv": 0}

EMBEDDING = "model.embed_tokens.weight"
LM_HEAD = "lm_head.weight"
VALUE_HEAD = "score.weight"


@dataclass(frozen=True)
class Rule:
    """One Megatron parameter: its local name, its kind, the Hugging Face tensors it is made of."""

    name: str
    kind: str
    sources: tuple[str, ...]


def rule_for(name: str, *, arch: Architecture, layer_offset: int, head: str) -> Rule:
    """The rule of a local parameter name; `layer_offset` is the number of layers on earlier stages."""
    if name == "embedding.word_embeddings.weight":
        return Rule(name, "vocabulary", (EMBEDDING,))
    if name == "decoder.final_layernorm.weight":
        return Rule(name, "whole", ("model.norm.weight",))
    if name == "output_layer.weight":
        if head == "value":
            return Rule(name, "whole", (VALUE_HEAD,))
        return Rule(name, "vocabulary", (EMBEDDING if arch.tied else LM_HEAD,))
    prefix, _, rest = name.partition("decoder.layers.")
    index, _, inner = rest.partition(".")
    part, _, leaf = FUSED_NORMS.get(inner, inner).rpartition(".")
    expert = EXPERT.fullmatch(part)
    part = f"mlp.{expert[2]}" if expert else part
    if prefix or part not in LAYER or leaf not in ("weight", "bias"):
        raise ValueError(f"no Hugging Face weight is known for Megatron's parameter {name}")
    kind, sources = LAYER[part]
    if expert:
        sources = tuple(source.replace("mlp.", f"mlp.experts.{expert[1]}.") for source in sources)
    layer = int(index) + layer_offset
    return Rule(name, kind, tuple(f"model.layers.{layer}.{source}.{leaf}" for source in sources))


def shapes(arch: Architecture, *, head: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every Hugging Face tensor of the model and its shape, in the order of a checkpoint."""
    hidden, queries, keys = arch.hidden_size, arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
    yield EMBEDDING, (arch.vocab_size, hidden)
    for layer in range(arch.num_layers):
        at = f"model.layers.{layer}."
        yield f"{at}input_layernorm.weight", (hidden,)
        for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            yield f"{at}self_attn.{name}.weight", (rows, hidden)
            if arch.qkv_bias:
                yield f"{at}self_attn.{name}.bias", (rows,)
        if arch.qk_norm:
            yield f"{at}self_attn.q_norm.weight", (arch.head_dim,)
            yield f"{at}self_attn.k_norm.weight", (arch.head_dim,)
        yield f"{at}self_attn.o_proj.weight", (hidden, queries)
        yield f"{at}post_attention_layernorm.weight", (hidden,)
        yield from _feed_forward(arch, layer, at=at)
    yield "model.norm.weight", (hidden,)
    if head == "value":
        yield VALUE_HEAD, (1, hidden)
    elif not arch.tied:
        yield LM_HEAD, (arch.vocab_size, hidden)


def _feed_forward(arch: Architecture, layer: int, *, at: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    networks, width = [f"{at}mlp."], arch.ffn_hidden_size
    if arch.experts is not None and layer in arch.expert_layers():
        yield f"{at}mlp.gate.weight", (arch.experts.count, arch.hidden_size)
        networks = [f"{at}mlp.experts.{expert}." for expert in range(arch.experts.count)]
        width = arch.experts.ffn_hidden_size
    for network in networks:
        yield f"{network}gate_proj.weight", (width, arch.hidden_size)
        yield f"{network}up_proj.weight", (width, arch.hidden_size)
        yield f"{network}down_proj.weight", (arch.hidden_size, width)


def to_local(
    kind: str, tensors: tuple[Tensor, ...], *, arch: Architecture, tp_rank: int, tp_size: int, padded_vocab: int
) -> Tensor:
    """One rank's Megatron weight from whole Hugging Face tensors."""
    if kind == "qkv":
        return _chunk(_merge_qkv(*tensors, arch=arch), tp_rank, tp_size, dim=0).flatten(0, 1)
    if kind == "gate_up":
        return torch.cat([_chunk(tensor, tp_rank, tp_size, dim=0) for tensor in tensors])
    (tensor,) = tensors
    if kind == "vocabulary":
        padding = tensor.new_zeros(padded_vocab - tensor.shape[0], tensor.shape[1])
        tensor = torch.cat([tensor, padding])
    return tensor if kind == "whole" else _chunk(tensor, tp_rank, tp_size, dim=PARTITION_DIM[kind])


def from_locals(kind: str, shards: list[Tensor], *, arch: Architecture) -> tuple[Tensor, ...]:
    """Whole Hugging Face tensors from all tensor-parallel ranks' weights; undoes to_local."""
    if kind == "whole":
        return (shards[0],)
    if kind == "qkv":
        return _split_qkv(torch.cat(shards), arch=arch)
    if kind == "gate_up":
        halves = [shard.chunk(2) for shard in shards]
        return tuple(torch.cat([half[i] for half in halves]) for i in range(2))
    whole = torch.cat(shards, dim=PARTITION_DIM[kind])
    return (whole[: arch.vocab_size],) if kind == "vocabulary" else (whole,)


def _merge_qkv(q: Tensor, k: Tensor, v: Tensor, *, arch: Architecture) -> Tensor:
    """[groups, rows of a group, ...]: each group's query heads, then its key head, then its value head."""
    groups = [tensor.unflatten(0, (arch.num_kv_heads, -1)) for tensor in (q, k, v)]
    return torch.cat(groups, dim=1)


def _split_qkv(merged: Tensor, *, arch: Architecture) -> tuple[Tensor, Tensor, Tensor]:
    query_rows = arch.heads_per_group * arch.head_dim
    q, k, v = merged.unflatten(0, (arch.num_kv_heads, -1)).split([query_rows, arch.head_dim, arch.head_dim], dim=1)
    return q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)


def _chunk(tensor: Tensor, rank: int, size: int, *, dim: int) -> Tensor:
    assert tensor.shape[dim] % size == 0, (tuple(tensor.shape), size, dim)
    return tensor.chunk(size, dim=dim)[rank]

"""A stage of a Megatron GPTModel run with a key-value cache, by walking its parameters instead of calling its modules.

Megatron's own forward keeps one length for the whole batch and spends more time in Python than in kernels at rollout
sizes. This walk does the same arithmetic on the same Parameter objects (so an in-place weight hand-over is seen at
once), with no dropout, no autograd, tokens packed as rows N, and one `attend` function that differs between prefill and
decode:

    embedding -> layers x [norm, qkv, (qk norm), rope, attend, proj, +, norm, gate-up, act, down, +] -> norm -> logits

Where a layer has experts, gate-up, act and down are those of each token's experts (layer_weights.py).

The first stage of a pipeline begins with the embedding, the last one ends with logits; between stages the hidden states
of a part (`Prefill` or `Decode`) are passed on as [N, H].

Rows of linear_qkv are grouped as Megatron stores them: per key-value group its q query heads, then key, then value.

Legend: N tokens, P prompts, R rows, T positions, H hidden, G key-value groups, Q query heads per group, D head_dim,
V padded vocabulary. G and the vocabulary's local part are those of this tensor-parallel rank.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from fusedrl.rollout.cache import KeyValueCache
from fusedrl.rollout.layer_weights import LayerWeights
from fusedrl.rollout.support import check_supported

Attend = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True)
class Prefill:
    """Right-padded prompts for the cache rows from `first_row` on: row i takes prompt `prompt_R[i]`, or prompt i."""

    tokens_PT: Tensor
    lengths_P: Tensor
    first_row: int
    prompt_R: Tensor | None = None

    @property
    def tokens(self) -> int:
        return self.tokens_PT.numel()


@dataclass(frozen=True)
class Decode:
    """One token for each of the cache's first R rows, at `position_R`; `length` is the largest position plus one."""

    token_R: Tensor
    position_R: Tensor
    length: int

    @property
    def tokens(self) -> int:
        return self.token_R.numel()


class CachedDecoder:
    """Runs parts on this rank's shard of a stage; all tensor-parallel ranks call it with equal arguments."""

    def __init__(self, model: Any, *, max_length: int) -> None:
        check_supported(model)
        config, attention = model.config, model.decoder.layers[0].self_attention
        self.groups: int = attention.num_query_groups_per_partition
        self.queries: int = attention.num_attention_heads_per_partition // self.groups
        self.head_dim: int = attention.hidden_size_per_attention_head
        self.hidden: int = config.hidden_size
        self.layers = [LayerWeights.of(layer) for layer in model.decoder.layers]
        self._embedding: Tensor | None = model.embedding.word_embeddings.weight if model.pre_process else None
        self._final_norm: Tensor | None = model.decoder.final_layernorm.weight if model.post_process else None
        self._output = _output_weight(model)
        self._eps: float = config.layernorm_epsilon
        self._activation: Callable[[Tensor], Tensor] = config.activation_func
        self._gated: bool = config.gated_linear_unit
        self._scale: float | None = config.softmax_scale
        self._tp = model.pg_collection.tp
        self._tp_size, self._tp_rank = self._tp.size(), self._tp.rank()
        self._cos_TD, self._sin_TD = _rope_tables(model, max_length=max_length, like=self.layers[0].qkv)

    @property
    def dtype(self) -> torch.dtype:
        return self.layers[0].qkv.dtype

    @property
    def device(self) -> torch.device:
        return self.layers[0].qkv.device

    def run(self, part: Prefill | Decode, hidden_NH: Tensor | None, *, cache: KeyValueCache) -> Tensor:
        """The stage's output: hidden_NH for the next stage, from the last one logits_PV or logits_RV.

        hidden_NH: what the stage before sent; None on the first stage. The part's tokens are written to the cache. A
        prefill gives the logits after the last token of each prompt.
        """
        if isinstance(part, Prefill):
            return self._prefill(part, hidden_NH, cache=cache)
        return self._decode(part, hidden_NH, cache=cache)

    def _prefill(self, part: Prefill, hidden_NH: Tensor | None, *, cache: KeyValueCache) -> Tensor:
        prompts, length = part.tokens_PT.shape
        heads = (prompts, length, self.groups, self.queries + 2, self.head_dim)

        def attend(layer: int, qkv_NGHD: Tensor) -> Tensor:
            qkv_PTGHD = qkv_NGHD.view(heads)
            kv_PTG2D = qkv_PTGHD[:, :, :, self.queries :]
            kv_RTG2D = kv_PTG2D if part.prompt_R is None else kv_PTG2D[part.prompt_R]
            cache.write_rows(layer, first_row=part.first_row, keys_values_RTG2D=kv_RTG2D)
            return self._causal(qkv_PTGHD)

        position_N = torch.arange(length, device=self.device).repeat(prompts)
        hidden_NH = self._embed(part.tokens_PT.flatten()) if hidden_NH is None else hidden_NH
        hidden_NH = self._walk(hidden_NH, position_N, attend=attend)
        if self._output is None:
            return hidden_NH
        last_P = torch.arange(prompts, device=self.device) * length + part.lengths_P - 1
        return self._logits(hidden_NH[last_P])

    def _decode(self, part: Decode, hidden_NH: Tensor | None, *, cache: KeyValueCache) -> Tensor:
        rows, length = part.tokens, part.length
        flat_R = torch.arange(rows, device=self.device) * cache.capacity + part.position_R
        mask_R11T = self._mask(part.position_R, length=length)

        def attend(layer: int, qkv_RGHD: Tensor) -> Tensor:
            cache.append(layer, flat_R=flat_R, keys_values_RG2D=qkv_RGHD[:, :, self.queries :])
            keys_RGTD, values_RGTD = cache.read(layer, rows=rows, length=length)
            # a group's query heads stand where the positions of a query would: no key is repeated for them
            query_RGQD = qkv_RGHD[:, :, : self.queries]
            context_RGQD = F.scaled_dot_product_attention(
                query_RGQD, keys_RGTD, values_RGTD, attn_mask=mask_R11T, scale=self._scale
            )
            return context_RGQD.reshape(rows, -1)

        hidden_NH = self._embed(part.token_R) if hidden_NH is None else hidden_NH
        hidden_NH = self._walk(hidden_NH, part.position_R, attend=attend)
        return hidden_NH if self._output is None else self._logits(hidden_NH)

    def _walk(self, hidden_NH: Tensor, position_N: Tensor, *, attend: Attend) -> Tensor:
        rope = self._rope(position_N)
        for index, weights in enumerate(self.layers):
            normed_NH = self._norm(hidden_NH, weights.input_norm)
            qkv_NGHD = self._qkv(normed_NH, weights, rope=rope)
            hidden_NH = hidden_NH + self._row_parallel(attend(index, qkv_NGHD), weights.proj, weights.proj_bias)
            normed_NH = self._norm(hidden_NH, weights.mlp_norm)
            hidden_NH = hidden_NH + self._mlp(normed_NH, weights)
        return hidden_NH

    def _rope(self, position_N: Tensor) -> tuple[Tensor, Tensor]:
        """(cos_N1HD, sin_N1HD) for all heads of a group; the value's are 1 and 0.

        Turning the value by nothing costs less than cutting it out: the product then runs over whole memory.
        """
        heads = (1, 1, self.queries + 2, 1)
        cos_N1HD = self._cos_TD[position_N][:, None, None].repeat(heads)
        sin_N1HD = self._sin_TD[position_N][:, None, None].repeat(heads)
        cos_N1HD[:, :, -1] = 1
        sin_N1HD[:, :, -1] = 0
        return cos_N1HD, sin_N1HD

    def _qkv(self, normed_NH: Tensor, weights: LayerWeights, *, rope: tuple[Tensor, Tensor]) -> Tensor:
        """qkv_NGHD: the Q queries and the key of each group rotated, the value as it is."""
        qkv_NGHD = F.linear(normed_NH, weights.qkv, weights.qkv_bias).view(
            -1, self.groups, self.queries + 2, self.head_dim
        )
        if weights.query_norm is not None and weights.key_norm is not None:
            query_NGQD, key_NGD = qkv_NGHD[:, :, : self.queries], qkv_NGHD[:, :, self.queries]
            query_NGQD.copy_(self._norm(query_NGQD, weights.query_norm))
            key_NGD.copy_(self._norm(key_NGD, weights.key_norm))
        cos_N1HD, sin_N1HD = rope
        halves_swapped_NGHD = qkv_NGHD.roll(self.head_dim // 2, -1)
        return qkv_NGHD.mul_(cos_N1HD).addcmul_(halves_swapped_NGHD, sin_N1HD)

    def _causal(self, qkv_PTGHD: Tensor) -> Tensor:
        """context_N(GQD) of whole prompts; right padding is never looked at by a real token."""
        query_PTGQD, key_PTGD = qkv_PTGHD[:, :, :, : self.queries], qkv_PTGHD[:, :, :, self.queries]
        context = F.scaled_dot_product_attention(
            query_PTGQD.flatten(2, 3).transpose(1, 2),
            key_PTGD.transpose(1, 2),
            qkv_PTGHD[:, :, :, self.queries + 1].transpose(1, 2),
            is_causal=True,
            scale=self._scale,
            enable_gqa=self.queries > 1,
        )
        return context.transpose(1, 2).flatten(2).flatten(0, 1)

    def _mask(self, position_R: Tensor, *, length: int) -> Tensor:
        hidden_RT = torch.arange(length, device=self.device) > position_R[:, None]
        mask_RT = torch.zeros(hidden_RT.shape, dtype=self.dtype, device=self.device).masked_fill_(hidden_RT, -torch.inf)
        return mask_RT[:, None, None]

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)

    def _mlp(self, normed_NH: Tensor, weights: LayerWeights) -> Tensor:
        if weights.experts is not None:
            return self._summed(weights.experts.output(normed_NH, activate=self._activate))
        assert weights.fc2 is not None
        up = self._activate(F.linear(normed_NH, weights.fc1, weights.fc1_bias))
        return self._row_parallel(up, weights.fc2, weights.fc2_bias)

    def _activate(self, up: Tensor) -> Tensor:
        """Of gate and up, side by side; or of up alone."""
        if not self._gated:
            return self._activation(up)
        gate, up = up.chunk(2, dim=-1)
        return self._activation(gate).mul_(up)

    def _row_parallel(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self._tp_size == 1:
            return F.linear(x, weight, bias)
        partial = self._summed(F.linear(x, weight))
        return partial if bias is None else partial.add_(bias)

    def _summed(self, partial: Tensor) -> Tensor:
        """Over tensor-parallel ranks, in place."""
        if self._tp_size > 1:
            dist.all_reduce(partial, group=self._tp)
        return partial

    def _embed(self, token_N: Tensor) -> Tensor:
        assert self._embedding is not None, "a later stage needs the hidden states of the one before"
        if self._tp_size == 1:
            return F.embedding(token_N, self._embedding)
        local_N = token_N - self._tp_rank * self._embedding.shape[0]
        elsewhere_N = (local_N < 0) | (local_N >= self._embedding.shape[0])
        partial_NH = F.embedding(local_N.masked_fill_(elsewhere_N, 0), self._embedding)
        partial_NH.masked_fill_(elsewhere_N[:, None], 0)
        dist.all_reduce(partial_NH, group=self._tp)
        return partial_NH

    def _logits(self, hidden_RH: Tensor) -> Tensor:
        assert self._final_norm is not None
        assert self._output is not None
        local_RV = F.linear(self._norm(hidden_RH, self._final_norm), self._output)
        if self._tp_size == 1:
            return local_RV
        shards = [torch.empty_like(local_RV) for _ in range(self._tp_size)]
        dist.all_gather(shards, local_RV, group=self._tp)
        return torch.cat(shards, dim=-1)


def _output_weight(model: Any) -> Tensor | None:
    """What logits are made with, on the last stage; where first and last stage differ, a tied one has its own copy."""
    if not model.post_process:
        return None
    tied_here = model.share_embeddings_and_output_weights and model.pre_process
    weight: Tensor = model.embedding.word_embeddings.weight if tied_here else model.output_layer.weight
    return weight


def _rope_tables(model: Any, *, max_length: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """(cos_TD, sin_TD), with the sign of "rotate half" folded into the sine: x * cos + swap_halves(x) * sin."""
    angle_TD = model.rotary_pos_emb(max_length)[:, 0, 0].float()
    sin_TD = angle_TD.sin()
    sin_TD[:, : sin_TD.shape[1] // 2] *= -1
    return angle_TD.cos().to(like), sin_TD.to(like)

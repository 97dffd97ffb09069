"""Bytes that autograd keeps of one micro-batch on one stage, from its forward to its backward: counted, not measured.

What Megatron's local layers save, N = B*T tokens, e bytes a number, on one of tp ranks:

    norm             (8 + e) H + 4                    input and normalised input in float32, output
    q, k, v          3 A D e                          keys and values expanded to all heads
    where K = A      (2 A D + 3 A D) e                v is a view: the whole projection stays
    scores           A T 4 (+ e where e < 4)          softmax in float32, and its cast
    context          A D e
    rotary           4 T D e a layer, whatever B
    MLP              5 I e                            gate and up, silu(gate), up, their product, and a sum with 0
    experts          k (H + 1) e + 8 k                tokens sorted by expert, their weights, places
                     6 k F e                          as an MLP, and its product with the weights
                     X (1 + e)                        which expert a token goes to, and its weight there
                     12 k, or 8 k + 4 X               largest scores and their softmax, or that of all scores
    last stage       a norm;  logits V e, once for all functions of them (log-probabilities, entropy)

Parts of attention, MLP and logits, and the 6 k F e, are divided by tp, with sequence parallelism norms and scores of
experts, too. Recomputed layers keep their input alone; with selective recomputation queries, keys and values stay,
scores do not. Transformer Engine's fused attention keeps no scores either: for it this is too much.

Context parallelism divides N and T by cp, but not the keys that a token is compared with, A T 4 of scores a token. Its
attention keeps the keys and values of all cp ranks, 2 K D e a token of each, not expanded to all heads. Nor does that
of packed rows expand its own; rotary positions are then those of every token.

B rows, T tokens, H hidden, A heads, K key-value heads, D head size, I MLP size, V padded vocabulary; F an expert's
size, k of X experts. Where some of a stage's layers have experts and some are computed again, it counts their mean.
"""

from dataclasses import dataclass
from typing import Literal

from fusedrl.models.architecture import pad_vocab
from fusedrl.models.options import PLAIN, StageOptions
from fusedrl.pipeline.sizes import Sizes

SELECTIVE = "selective"


@dataclass(frozen=True)
class Activations:
    """What a stage's forward leaves for its backward."""

    sizes: Sizes
    head: Literal["lm", "value"] = "lm"
    tp: int = 1
    bytes_each: int = 4
    options: StageOptions = PLAIN
    cp: int = 1

    def nbytes(
        self, layers: int, *, rows: float, length: float, first: bool, last: bool, with_experts: int = 0
    ) -> float:
        """Of a stage with so many layers; first, last: whether it holds the embedding, the head."""
        inputs, whole = self._kept(layers)
        tokens = rows * length / self.cp
        kept = whole * self._layer(tokens, length, with_experts / layers)
        kept += inputs * tokens * self.sizes.hidden_size * self.bytes_each / self._shares()
        if inputs:  # the rotary embedding goes into each layer that is computed again
            kept += 4 * length / self.cp * self.sizes.head_dim
        kept += self._mask(length, whole=whole)
        if first:
            kept += 8 * tokens
        return kept + (self._head(tokens) if last else 0.0)

    def _kept(self, layers: int) -> tuple[int, int]:
        recompute = self.options.recompute
        return (0, layers) if recompute is None else recompute.kept_layers(layers)

    def _mask(self, length: float, *, whole: int) -> float:
        """The causal mask, a byte each. Megatron hands it from layer to layer; other attention has its own."""
        if not self._own_attention:
            return length * length
        return length * length / self.cp if whole and not self._selective else 0.0

    @property
    def _own_attention(self) -> bool:
        """Whether it is fusedrl.models.attention's, not Megatron's."""
        return self.cp > 1 or self.options.packed

    def _layer(self, tokens: float, length: float, with_experts: float) -> float:
        """with_experts: a part of 1."""
        dense = 5 * self.sizes.ffn_hidden_size * self.bytes_each / self.tp
        mlp = (1 - with_experts) * dense + with_experts * self._experts()
        positions = tokens if self.options.packed else length / self.cp
        rotary = 4 * positions * self.sizes.head_dim * self.bytes_each
        return rotary + tokens * (2 * self._norm() + mlp + self._attention(length) / self.tp)

    def _experts(self) -> float:
        """Bytes a token; the router's own are those of a rank's share of the tokens."""
        experts, e = self.sizes.experts, self.bytes_each
        if experts is None:
            return 0.0
        k, count = experts.per_token, experts.count
        sorted_tokens = k * ((self.sizes.hidden_size + 1) * e + 8) + count * (1 + e)
        scores = 12 * k if experts.normalized else 8 * k + 4 * count
        return sorted_tokens + 6 * k * experts.ffn_hidden_size * e / self.tp + scores / self._shares()

    def _shares(self) -> int:
        """Ranks that share the tokens of norms and residuals."""
        return self.tp if self.options.sequence_parallel else 1

    def _norm(self) -> float:
        return ((8 + self.bytes_each) * self.sizes.hidden_size + 4) / self._shares()

    @property
    def _selective(self) -> bool:
        return self.options.recompute is not None and self.options.recompute.granularity == SELECTIVE

    def _attention(self, length: float) -> float:
        """Bytes a token, of all heads."""
        a, e, selective = self.sizes, self.bytes_each, self._selective
        queries, keys = a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
        kept = 3 * queries if not selective else 2 * queries + keys
        scores = 0 if selective else a.num_heads * length * (4 + (e if e < 4 else 0))
        projection = queries + 2 * keys
        if self._own_attention and not selective:
            return (2 * queries + 2 * self.cp * keys) * e + scores + self._head_norms(projection_kept=False)
        whole = selective or queries == keys  # a view of the projection is kept
        kept += projection if whole else queries
        return kept * e + scores + self._head_norms(projection_kept=whole)

    def _head_norms(self, *, projection_kept: bool) -> float:
        """Norms of each head's query and key; in float32 their input is the projection, the query's mostly a copy."""
        a = self.sizes
        if not a.qk_norm:
            return 0.0
        normalised = 4 * (a.num_heads + a.num_kv_heads) * (a.head_dim + 1)
        if self.bytes_each < 4:
            return normalised + 4 * (a.num_heads + a.num_kv_heads) * a.head_dim
        copy = 0 if a.num_heads == a.num_kv_heads else 4 * a.num_heads * a.head_dim
        return normalised + copy + (0 if projection_kept else 4 * (a.num_heads + 2 * a.num_kv_heads) * a.head_dim)

    def _head(self, tokens: float) -> float:
        norm = tokens * self._norm()
        if self.head == "value":
            gathered = self.sizes.hidden_size * self.bytes_each * (1 - 1 / self._shares())
            return norm + tokens * gathered
        logits = pad_vocab(self.sizes.vocab_size, tp=self.tp) / self.tp * self.bytes_each
        return norm + tokens * (logits + 13)  # 13: target, whether it is here, logarithm of the sum

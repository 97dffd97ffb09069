"""What one micro-batch costs on one stage, for planning: constants, or counted floating-point operations.

A cost model answers for (stage, rows, tokens); plans multiply nothing else in. The unit is the model's own, but all
models of a plan must use the same one. Counted operations are in GFLOP and MiB. For rows of many lengths, laid end to
end, rows and tokens are those of one length that are as many and attend as often: no whole numbers.

    layer forward, N = B*T tokens:  2 N H (A + 2 K) D  +  4 B T T A D  +  2 N A D H  +  6 N H I
                                    qkv                   attention       output        gated MLP
    with experts                    2 N H X  +  6 N H k F                                     router, k of X experts
    B rows, T tokens, H hidden, A heads, K key-value heads, D head size, I MLP size, F an expert's, V vocabulary
    backward = 2 x forward;  its weight part, which an order may split off, is a forward without attention
    recomputation adds what a backward computes again: whole layers, or their attention

Memory is what autograd keeps (fusedrl.pipeline.activations), without what a backward computes again for one layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fusedrl.models.options import PLAIN, StageOptions
from fusedrl.pipeline.activations import Activations
from fusedrl.pipeline.sizes import Sizes


class Cost(Protocol):
    """Times and memory of `rows` x `length` tokens on a stage: F, whole B, the part of B that may be put off as W, and
    what is held from F to the end of the backward."""

    def forward(self, stage: int, *, rows: float, length: float) -> float: ...

    def backward(self, stage: int, *, rows: float, length: float) -> float: ...

    def weight(self, stage: int, *, rows: float, length: float) -> float: ...

    def activation(self, stage: int, *, rows: float, length: float) -> float: ...


@dataclass(frozen=True)
class ConstantCost:
    """The same for every stage and micro-batch, in any unit. weight_time: half of the backward where not given."""

    forward_time: float = 1.0
    backward_time: float = 2.0
    memory: float = 1.0
    weight_time: float | None = None

    def forward(self, stage: int, *, rows: float, length: float) -> float:
        return self.forward_time

    def backward(self, stage: int, *, rows: float, length: float) -> float:
        return self.backward_time

    def weight(self, stage: int, *, rows: float, length: float) -> float:
        return self.backward_time / 2 if self.weight_time is None else self.weight_time

    def activation(self, stage: int, *, rows: float, length: float) -> float:
        return self.memory


@dataclass(frozen=True)
class CountedCost:
    """Operations of one rank of a stage: GFLOP (forward, backward) and MiB (activation), divided by tp and cp.

    layers: of each stage. head: what the last stage ends with; embedding look-ups cost nothing.
    """

    sizes: Sizes
    layers: Sequence[int]
    head: Literal["lm", "value"] = "lm"
    tp: int = 1
    bytes_each: int = 4
    options: StageOptions = PLAIN
    cp: int = 1

    def forward(self, stage: int, *, rows: float, length: float) -> float:
        tokens = rows * length
        layers = self._linear(stage, tokens) + self.layers[stage] * self._attention(tokens, length)
        return self._gflop(layers + self._routers(stage, tokens) + self._head(stage, tokens))

    def backward(self, stage: int, *, rows: float, length: float) -> float:
        return round(2.0 * self.forward(stage, rows=rows, length=length) + self._again(stage, rows * length, length), 9)

    def weight(self, stage: int, *, rows: float, length: float) -> float:
        """A value head's is computed in B, as routers', norms' and biases' are."""
        tokens = rows * length
        head = self._head(stage, tokens) if self.head == "lm" else 0.0
        return self._gflop(self._linear(stage, tokens) + head)

    def activation(self, stage: int, *, rows: float, length: float) -> float:
        """Between a B and its W a stage holds the inputs and the output gradients of its matrix products: not more."""
        kept = Activations(self.sizes, self.head, self.tp, self.bytes_each, self.options, self.cp)
        ends = {"first": stage == 0, "last": self._is_last(stage)}
        layers, with_experts = self.layers[stage], self._with_experts(stage)
        return round(kept.nbytes(layers, rows=rows, length=length, with_experts=with_experts, **ends) / 2**20, 6)

    def _again(self, stage: int, tokens: float, length: float) -> float:
        """GFLOP that a backward computes a second time."""
        recompute = self.options.recompute
        if recompute is None:
            return 0.0
        layers, attention = self.layers[stage], self._attention(tokens, length)
        if recompute.granularity == "selective":
            return layers * attention / (self.tp * self.cp) / 1e9
        products = (self._linear(stage, tokens) + self._routers(stage, tokens)) / layers
        return recompute.layers_again(layers) * (products + attention) / (self.tp * self.cp) / 1e9

    def _gflop(self, operations: float) -> float:
        return round(operations / (self.tp * self.cp) / 1e9, 9)

    def _linear(self, stage: int, tokens: float) -> float:
        """All layers' products with weights that may be put off, forward."""
        a, layers, with_experts = self.sizes, self.layers[stage], self._with_experts(stage)
        widths = layers * 2 * (a.num_heads + a.num_kv_heads) * a.head_dim
        widths += (layers - with_experts) * 3 * a.ffn_hidden_size
        if a.experts is not None:
            widths += with_experts * 3 * a.experts.per_token * a.experts.ffn_hidden_size
        return 2 * tokens * a.hidden_size * widths

    def _routers(self, stage: int, tokens: float) -> float:
        experts = self.sizes.experts
        return (
            0.0 if experts is None else 2 * tokens * self.sizes.hidden_size * experts.count * self._with_experts(stage)
        )

    def _with_experts(self, stage: int) -> int:
        """Layers of the stage."""
        before, experts = sum(self.layers[:stage]), self.sizes.experts
        return 0 if experts is None else len(experts.among(range(before, before + self.layers[stage])))

    def _attention(self, tokens: float, length: float) -> float:
        """A layer's scores and their weighted sum, forward."""
        return 4 * tokens * length * self.sizes.num_heads * self.sizes.head_dim

    def _is_last(self, stage: int) -> bool:
        return stage == len(self.layers) - 1

    def _head(self, stage: int, tokens: float) -> float:
        if not self._is_last(stage):
            return 0.0
        return 2.0 * tokens * self.sizes.hidden_size * (self.sizes.vocab_size if self.head == "lm" else 1)

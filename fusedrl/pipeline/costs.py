"""What one micro-batch costs on one stage, for planning: constants, or counted floating-point operations.

A cost model answers for (stage, rows, tokens); plans multiply nothing else in. The unit is the model's own, but all
models of a plan must use the same one. Counted operations are in GFLOP and MiB. For rows of many lengths, laid end to
end, rows and tokens are those of one length that are as many and attend as often: no whole numbers.

    layer forward, N = B*T tokens:  2 N H (A + 2 K) D  +  4 B T T A D  +  2 N A D H  +  6 N H I
                                    qkv                   attention       output        gated MLP
    B rows, T tokens, H hidden, A heads, K key-value heads, D head size, I MLP size, V vocabulary
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
        layers = self.layers[stage] * (self._linear(tokens) + self._attention(tokens, length))
        return self._gflop(layers + self._head(stage, tokens))

    def backward(self, stage: int, *, rows: float, length: float) -> float:
        return round(2.0 * self.forward(stage, rows=rows, length=length) + self._again(stage, rows * length, length), 9)

    def weight(self, stage: int, *, rows: float, length: float) -> float:
        """A value head's is computed in B, as norms' and biases' are."""
        tokens = rows * length
        head = self._head(stage, tokens) if self.head == "lm" else 0.0
        return self._gflop(self.layers[stage] * self._linear(tokens) + head)

    def activation(self, stage: int, *, rows: float, length: float) -> float:
        """Between a B and its W a stage holds the inputs and the output gradients of its matrix products: not more."""
        kept = Activations(self.sizes, self.head, self.tp, self.bytes_each, self.options, self.cp)
        first, last = stage == 0, self._is_last(stage)
        return round(kept.nbytes(self.layers[stage], rows=rows, length=length, first=first, last=last) / 2**20, 6)

    def _again(self, stage: int, tokens: float, length: float) -> float:
        """GFLOP that a backward computes a second time."""
        recompute = self.options.recompute
        if recompute is None:
            return 0.0
        layers, attention = self.layers[stage], self._attention(tokens, length)
        if recompute.granularity == "selective":
            return layers * attention / (self.tp * self.cp) / 1e9
        return recompute.layers_again(layers) * (self._linear(tokens) + attention) / (self.tp * self.cp) / 1e9

    def _gflop(self, operations: float) -> float:
        return round(operations / (self.tp * self.cp) / 1e9, 9)

    def _linear(self, tokens: float) -> float:
        """A layer's products with weights, forward."""
        a = self.sizes
        attention = 2 * (a.num_heads + a.num_kv_heads) * a.head_dim
        return 2 * tokens * a.hidden_size * (attention + 3 * a.ffn_hidden_size)

    def _attention(self, tokens: float, length: float) -> float:
        """A layer's scores and their weighted sum, forward."""
        return 4 * tokens * length * self.sizes.num_heads * self.sizes.head_dim

    def _is_last(self, stage: int) -> bool:
        return stage == len(self.layers) - 1

    def _head(self, stage: int, tokens: float) -> float:
        if not self._is_last(stage):
            return 0.0
        return 2.0 * tokens * self.sizes.hidden_size * (self.sizes.vocab_size if self.head == "lm" else 1)

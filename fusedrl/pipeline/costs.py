"""What one micro-batch costs on one stage, for planning: constants, or counted floating-point operations.

A cost model answers for (stage, rows, tokens); plans multiply nothing else in. The unit is the model's own, but all
models of a plan must use the same one. Counted operations are in GFLOP and MiB.

    layer forward, N = B*T tokens:  2 N H (A + 2 K) D  +  4 B T T A D  +  2 N A D H  +  6 N H I
                                    qkv                   attention       output        gated MLP
    B rows, T tokens, H hidden, A heads, K key-value heads, D head size, I MLP size, V vocabulary
    backward = 2 x forward;  its weight part, which an order may split off, is a forward without attention
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


class Cost(Protocol):
    """Times and memory of `rows` x `length` tokens on a stage: F, whole B, the part of B that may be put off as W, and
    what is held from F to the end of the backward."""

    def forward(self, stage: int, *, rows: int, length: int) -> float: ...

    def backward(self, stage: int, *, rows: int, length: int) -> float: ...

    def weight(self, stage: int, *, rows: int, length: int) -> float: ...

    def activation(self, stage: int, *, rows: int, length: int) -> float: ...


@dataclass(frozen=True)
class ConstantCost:
    """The same for every stage and micro-batch, in any unit. weight_time: half of the backward where not given."""

    forward_time: float = 1.0
    backward_time: float = 2.0
    memory: float = 1.0
    weight_time: float | None = None

    def forward(self, stage: int, *, rows: int, length: int) -> float:
        return self.forward_time

    def backward(self, stage: int, *, rows: int, length: int) -> float:
        return self.backward_time

    def weight(self, stage: int, *, rows: int, length: int) -> float:
        return self.backward_time / 2 if self.weight_time is None else self.weight_time

    def activation(self, stage: int, *, rows: int, length: int) -> float:
        return self.memory


class Sizes(Protocol):
    """The sizes that costs depend on (fusedrl.models.Architecture has them)."""

    @property
    def hidden_size(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def ffn_hidden_size(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...


@dataclass(frozen=True)
class CountedCost:
    """Operations of one rank of a stage: GFLOP (forward, backward) and MiB (activation), divided by tp.

    layers: of each stage. head: what the last stage ends with; embedding look-ups cost nothing.
    """

    sizes: Sizes
    layers: Sequence[int]
    head: Literal["lm", "value"] = "lm"
    tp: int = 1
    bytes_each: int = 4

    def forward(self, stage: int, *, rows: int, length: int) -> float:
        tokens = rows * length
        attention = 4 * tokens * length * self.sizes.num_heads * self.sizes.head_dim
        layers = self.layers[stage] * (self._linear(tokens) + attention)
        return round((layers + self._head(stage, tokens)) / self.tp / 1e9, 9)

    def backward(self, stage: int, *, rows: int, length: int) -> float:
        return 2.0 * self.forward(stage, rows=rows, length=length)

    def weight(self, stage: int, *, rows: int, length: int) -> float:
        """A value head's is computed in B, as norms' and biases' are."""
        tokens = rows * length
        head = self._head(stage, tokens) if self.head == "lm" else 0.0
        return round((self.layers[stage] * self._linear(tokens) + head) / self.tp / 1e9, 9)

    def activation(self, stage: int, *, rows: int, length: int) -> float:
        """Inputs that a layer's backward reads: norms and residuals (replicated), the rest split over tp.

        Between a B and its W a stage holds the inputs and the output gradients of its matrix products: not more.
        """
        a, tokens = self.sizes, rows * length
        whole = 5 * a.hidden_size
        split = (2 * a.num_heads + 2 * a.num_kv_heads) * a.head_dim + 3 * a.ffn_hidden_size + 2 * a.num_heads * length
        numbers = tokens * self.layers[stage] * (whole + split / self.tp)
        if self._is_last(stage) and self.head == "lm":
            numbers += 2 * tokens * a.vocab_size / self.tp
        return round(numbers * self.bytes_each / 2**20, 6)

    def _linear(self, tokens: int) -> int:
        """A layer's products with weights, forward."""
        a = self.sizes
        attention = 2 * (a.num_heads + a.num_kv_heads) * a.head_dim
        return 2 * tokens * a.hidden_size * (attention + 3 * a.ffn_hidden_size)

    def _is_last(self, stage: int) -> bool:
        return stage == len(self.layers) - 1

    def _head(self, stage: int, tokens: int) -> float:
        if not self._is_last(stage):
            return 0.0
        return 2.0 * tokens * self.sizes.hidden_size * (self.sizes.vocab_size if self.head == "lm" else 1)

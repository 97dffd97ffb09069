"""What the work of a model's calls costs on a cluster, in seconds: the questions that a plan asks of its costs.

    AnalyticCosts (analytic.py)    from the sheets of a device and its links
    MeasuredCosts (measured.py)    from a profile of the machine at hand

Work is asked for by micro-batch: `tokens` tokens of one replica, over its tp x cp ranks together, in rows whose mean
length is `length`, weighted by tokens: sum of squared lengths / sum of lengths. So tokens x length is the sum of
squares that attention's time goes with, for rows of one length and of many. Collectives of tp and cp are included;
those of dp and messages between stages are not: `collective` and `message` tell them.

A stage's forward is `layers x layer(...).forward`, with the embedding's on the first stage and the head's on the last.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from fusedrl.plan.cluster import Cluster
from fusedrl.plan.sizes import ModelSizes

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast"]


@dataclass(frozen=True)
class Passes:
    """Seconds of F, of the whole B, and of the part of B that an order may split off as W."""

    forward: float = 0.0
    backward: float = 0.0
    weight_gradient: float = 0.0

    def __add__(self, other: "Passes") -> "Passes":
        return Passes(
            self.forward + other.forward,
            self.backward + other.backward,
            self.weight_gradient + other.weight_gradient,
        )

    def __mul__(self, factor: float) -> "Passes":
        return Passes(self.forward * factor, self.backward * factor, self.weight_gradient * factor)

    def recomputed(self) -> "Passes":
        """With the forward computed again before the backward (recompute_granularity=full)."""
        return Passes(self.forward, self.backward + self.forward, self.weight_gradient)


class Costs(Protocol):
    """Seconds. All methods are pure and may be remembered by their arguments."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def dtype(self) -> str:
        """Of weights and activations: "bfloat16" or "float32"."""

    def widths(self, model: ModelSizes) -> tuple[int, ...]:
        """Tensor parallel sizes that can be told of this model, at most a node's devices. Others raise ValueError."""

    def layer(self, model: ModelSizes, *, tp: int, tokens: float, length: float, cp: int = 1) -> Passes:
        """One layer on one micro-batch; the mean of its layers where only some have experts."""

    def embedding(self, model: ModelSizes, *, tp: int, tokens: float, cp: int = 1) -> Passes:
        """What the first stage has beside its layers."""

    def head(self, model: ModelSizes, *, tp: int, tokens: float, cp: int = 1) -> Passes:
        """What the last stage has beside its layers: last norm, LM head and log-probabilities, or value head; loss."""

    def prefill(self, model: ModelSizes, *, tp: int, tokens: float, length: float) -> float:
        """One layer reading prompts of `tokens` tokens in all into the cache."""

    def decode(self, model: ModelSizes, *, tp: int, rows: float, context: float) -> float:
        """One layer making one token of each of `rows` rows, `context` tokens of each in the cache (their mean)."""

    def decode_ends(self, model: ModelSizes, *, tp: int, rows: float) -> float:
        """Embedding, last norm, LM head and sampling of one token of each row."""

    def message(self, nbytes: float, *, across_nodes: bool) -> float:
        """From one rank to another: the next stage's input, a gradient, a layer's weights."""

    def collective(self, kind: Collective, nbytes: float, *, ranks: int, nodes: int = 1) -> float:
        """Of `ranks` ranks spread evenly over `nodes` nodes. nbytes: of the whole tensor (an all-gather's result, a
        reduce-scatter's input), on each rank."""

    def reshard(self, nbytes: float, *, across_nodes: bool) -> float:
        """Until each rank has its part of a model in another layout. nbytes: the most that a rank sends or takes in."""

    def host_copy(self, nbytes: float) -> float:
        """So many bytes of a rank between its device and the memory of its CPU, one way."""

    def optimizer_step(self, parameters: float) -> float:
        """Clipping and Adam on a rank that has the state of so many parameters; without the collectives of dp."""


def message_bytes(model: ModelSizes, *, tokens: float, bytes_each: int, tp: int = 1, cp: int = 1) -> float:
    """What a rank sends to its peer of the next stage: hidden states, shared out over tp (sequence parallel) and cp."""
    return tokens * model.arch.hidden_size * bytes_each / (tp * cp)

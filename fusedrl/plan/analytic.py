"""Costs from the sheets of a device and its links: a roofline, kind of work by kind of work.

    matrix products     max(FLOPs / (peak x reached), bytes / (bandwidth x reached));  2 w N for w weights, N tokens
    attention core      as FlashAttention: 2 N T A D forward, causal, 2.5 times that backward (schedules.transformer)
    norms, residuals, rotary positions, SwiGLU     bytes alone
    each kernel         its launch
    tensor parallel     an all-reduce of N H after attention and after the MLP, forward and backward alike (Shoeybi et
                        al. 2019, section 3; with sequence parallelism an all-gather and a reduce-scatter of the same
                        bytes, Korthikanti et al. 2022, section 4.2.2)
    context parallel    an all-gather of keys and values forward, a reduce-scatter of their gradients backward

Nothing overlaps: neither communication with computing nor kernels with each other. What real programs hide or lose
beyond that is in the shares `reached` of the sheets, which are assumptions.

N = tokens / cp, T length, H hidden, A heads, K key-value heads, D head size, I MLP size, V vocabulary, e bytes each.
"""

from dataclasses import dataclass

from fusedrl.models.architecture import Architecture, pad_vocab
from fusedrl.plan.cluster import Cluster
from fusedrl.plan.costs import Collective, Passes
from fusedrl.plan.links import collective_seconds
from fusedrl.plan.memory import BYTES
from fusedrl.plan.sizes import ModelSizes
from schedules.transformer.attention import CORES

LAYER_KERNELS = (
    12  # a layer's forward: 2 norms, qkv, rotary, attention, output, 2 residuals, 2 products, SwiGLU, a cast
)
_CORE = CORES["flash"]
_ADAM_BYTES = 32  # a parameter: gradient (norm and step), main value and two moments read; the last three written


@dataclass(frozen=True)
class Matrices:
    """A layer's products on one rank. weights: that a token meets; stored: that are read; both in numbers."""

    weights: float
    stored: float


@dataclass(frozen=True)
class AnalyticCosts:
    """Costs by formula; implements `fusedrl.plan.costs.Costs`."""

    cluster: Cluster
    dtype: str = "bfloat16"

    def __post_init__(self) -> None:
        known = self.cluster.device.peak
        if self.dtype not in known or self.dtype not in BYTES:
            raise ValueError(f"dtype={self.dtype}: the sheet of {self.cluster.device.name} tells {', '.join(known)}")

    def widths(self, model: ModelSizes) -> tuple[int, ...]:
        return model.tensor_sizes(self.cluster.devices)

    def layer(self, model: ModelSizes, *, tp: int, tokens: float, length: float, cp: int = 1) -> Passes:
        arch, own = model.arch, tokens / cp
        products = matrices(arch, tp=tp, tokens=own)
        through = own * _widths_through(arch, tp)
        once = self._matrix(products.weights, own, stored=products.stored * self._each, through=through)
        gradient = self._matrix(products.weights, own, stored=8.0 * products.stored, through=through)
        core = own * length * arch.num_heads * arch.head_dim / tp
        plain = self._bytes(own * _plain_bytes(arch, tp, self._each))
        reduced = 2 * self._all_reduce(own * arch.hidden_size * self._each, tp=tp)
        shared = 2 * arch.num_kv_heads * arch.head_dim * tokens * self._each / tp
        launches = LAYER_KERNELS * self.cluster.device.launch
        forward = once + self._core(_CORE.forward * core) + plain + reduced + launches
        inputs = once + self._core(_CORE.backward * core) + 2 * plain + reduced + launches
        forward += self._over_cp("all_gather", shared, tp=tp, cp=cp)
        inputs += self._over_cp("reduce_scatter", shared, tp=tp, cp=cp)
        weight = gradient + launches
        return Passes(forward, inputs + weight, weight)

    def embedding(self, model: ModelSizes, *, tp: int, tokens: float, cp: int = 1) -> Passes:
        hidden = tokens / cp * model.arch.hidden_size
        launch = self.cluster.device.launch
        looked_up = self._bytes(2 * hidden * self._each) + launch
        added = self._bytes(hidden * (self._each + 8.0)) + launch
        return Passes(looked_up + self._all_reduce(hidden * self._each, tp=tp), added, 0.0)

    def head(self, model: ModelSizes, *, tp: int, tokens: float, cp: int = 1) -> Passes:
        arch, own, launch = model.arch, tokens / cp, self.cluster.device.launch
        norm = self._bytes(2 * own * arch.hidden_size * self._each) + launch
        if model.head == "value":
            read = self._bytes(own * arch.hidden_size * self._each) + launch
            return Passes(norm + read, 2 * (norm + read), 0.0)
        vocabulary = pad_vocab(arch.vocab_size, tp=tp) / tp
        weights, through = vocabulary * arch.hidden_size, own * (vocabulary + arch.hidden_size)
        once = self._matrix(weights, own, stored=weights * self._each, through=through)
        gradient = self._matrix(weights, own, stored=8.0 * weights, through=through)
        loss = self._bytes(own * vocabulary * (self._each + 4.0)) + 4 * launch
        sums = self._all_reduce(own * 4.0, tp=tp)  # the largest logit, the sum, the target's: float32
        reduced = self._all_reduce(own * arch.hidden_size * self._each, tp=tp)
        weight = gradient + launch
        backward = 2 * norm + once + loss + reduced + weight
        return Passes(norm + once + loss + 3 * sums, backward, weight)

    def prefill(self, model: ModelSizes, *, tp: int, tokens: float, length: float) -> float:
        return self.layer(model, tp=tp, tokens=tokens, length=length).forward

    def decode(self, model: ModelSizes, *, tp: int, rows: float, context: float) -> float:
        """Weights and the cache are read whole for a token of each row: most often bytes decide, not FLOPs."""
        arch = model.arch
        products = matrices(arch, tp=tp, tokens=rows)
        through = rows * _widths_through(arch, tp)
        once = self._matrix(products.weights, rows, stored=products.stored * self._each, through=through)
        cached = rows * context * 2 * arch.num_kv_heads * arch.head_dim * self._each / tp
        core = 4.0 * rows * context * arch.num_heads * arch.head_dim / tp
        plain = self._bytes(rows * _plain_bytes(arch, tp, self._each))
        reduced = 2 * self._all_reduce(rows * arch.hidden_size * self._each, tp=tp)
        attention = max(self._core(core), self._bytes(cached))
        return once + attention + plain + reduced + LAYER_KERNELS * self.cluster.device.launch

    def decode_ends(self, model: ModelSizes, *, tp: int, rows: float) -> float:
        arch, launch = model.arch, self.cluster.device.launch
        vocabulary = pad_vocab(arch.vocab_size, tp=tp)
        weights = vocabulary * arch.hidden_size / tp
        through = rows * (vocabulary / tp + arch.hidden_size)
        head = self._matrix(weights, rows, stored=weights * self._each, through=through)
        drawn = self._bytes(rows * vocabulary * 4.0 * 3) + 6 * launch  # scaled, summed, drawn
        logits = self.collective("all_gather", rows * vocabulary * 4.0, ranks=tp, nodes=self.cluster.nodes_of(tp))
        return head + drawn + logits + self._all_reduce(rows * arch.hidden_size * self._each, tp=tp)

    def message(self, nbytes: float, *, across_nodes: bool) -> float:
        return (self.cluster.between if across_nodes else self.cluster.inside).seconds(nbytes)

    def collective(self, kind: Collective, nbytes: float, *, ranks: int, nodes: int = 1) -> float:
        return collective_seconds(self.cluster, kind, nbytes, ranks=ranks, nodes=nodes)

    def reshard(self, nbytes: float, *, across_nodes: bool) -> float:
        """Every rank sends and takes in at the same time, each by its own link."""
        return self.message(nbytes, across_nodes=across_nodes) if nbytes else 0.0

    def host_copy(self, nbytes: float) -> float:
        return nbytes / self.cluster.device.host_bandwidth

    def optimizer_step(self, parameters: float) -> float:
        return self._bytes(parameters * (_ADAM_BYTES + self._each)) + self.cluster.device.launch

    @property
    def _each(self) -> float:
        return float(BYTES[self.dtype])

    def _matrix(self, weights: float, tokens: float, *, stored: float, through: float) -> float:
        """stored: bytes of weights (or of their gradients) moved; through: numbers that go in and come out."""
        device = self.cluster.device
        computing = 2.0 * weights * tokens / (device.peak[self.dtype] * device.reached.matrix)
        return max(computing, self._bytes(stored + through * self._each))

    def _core(self, flops: float) -> float:
        device = self.cluster.device
        return flops / (device.peak[self.dtype] * device.reached.attention)

    def _bytes(self, nbytes: float) -> float:
        device = self.cluster.device
        return nbytes / (device.memory_bandwidth * device.reached.memory)

    def _all_reduce(self, nbytes: float, *, tp: int) -> float:
        return self.collective("all_reduce", nbytes, ranks=tp, nodes=self.cluster.nodes_of(tp))

    def _over_cp(self, kind: Collective, nbytes: float, *, tp: int, cp: int) -> float:
        return self.collective(kind, nbytes, ranks=cp, nodes=self.cluster.nodes_of(cp, stride=tp))


def matrices(arch: Architecture, *, tp: int, tokens: float) -> Matrices:
    """A mean layer's: attention's four and the MLP's three, or those of the experts that the tokens go to."""
    attention = 2 * arch.hidden_size * (arch.num_heads + arch.num_kv_heads) * arch.head_dim
    dense = 3 * arch.hidden_size * arch.ffn_hidden_size
    if arch.experts is None:
        return Matrices((attention + dense) / tp, (attention + dense) / tp)
    experts, share = arch.experts, len(arch.expert_layers()) / arch.num_layers
    each = 3 * arch.hidden_size * experts.ffn_hidden_size
    met = (1 - share) * dense + share * experts.per_token * each
    read = (1 - share) * dense + share * min(experts.count, tokens * experts.per_token) * each
    return Matrices((attention + met) / tp, (attention + read) / tp)


def _widths_through(arch: Architecture, tp: int) -> float:
    """Numbers a token that a layer's products read and write; hidden states are whole on each rank of tp."""
    heads = (2 * arch.num_heads + 2 * arch.num_kv_heads) * arch.head_dim
    return 4 * arch.hidden_size + (heads + 3 * _mlp_width(arch)) / tp


def _plain_bytes(arch: Architecture, tp: int, each: float) -> float:
    """Bytes a token of norms (in, out), residuals (two in, one out), rotary positions and SwiGLU; all divided by tp,
    as with sequence parallelism."""
    rotary = 2 * (arch.num_heads + arch.num_kv_heads) * arch.head_dim
    return (10 * arch.hidden_size + rotary + 3 * _mlp_width(arch)) * each / tp


def _mlp_width(arch: Architecture) -> int:
    return arch.ffn_hidden_size if arch.experts is None else arch.experts.per_token * arch.experts.ffn_hidden_size

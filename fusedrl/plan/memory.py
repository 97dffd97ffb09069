"""Bytes of one rank by kind, for each kind of call on a layout, and by how much they do not fit. No torch here.

    weights        parameters x bytes each (bfloat16: 2)
    gradients      parameters x 4: they are summed in float32; training alone
    optimizer      parameters x 8, Adam's moments; x 12 with the main values of bfloat16; / (dp x cp) if distributed
    activations    one micro-batch of a stage x micro-batches in flight
    logits         what the loss makes beside them for one micro-batch: float32 logits and their gradient
    cache          keys and values of rows x tokens
    buffers        messages being sent and received, two of each direction

Activations are counted in two ways: "local", what Megatron's local layers save with unfused attention (measured on
the CPU, equal to the byte for plain layouts), and "flash", Korthikanti et al.'s count for fused kernels
(schedules.transformer.memory), which asks for 2 bytes a number and keeps no scores. Of several models on one rank add
the results: `training(...) + generation(...)`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fusedrl.models.architecture import pad_vocab
from fusedrl.models.options import PLAIN, StageOptions
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.activations import Activations
from fusedrl.plan.cluster import GIB
from fusedrl.plan.costs import message_bytes
from fusedrl.plan.sizes import ModelSizes

Attention = Literal["flash", "local"]
KINDS = ("weights", "gradients", "optimizer", "activations", "logits", "cache", "buffers")
BYTES = {"bfloat16": 2, "float32": 4}
GRADIENT, MOMENTS, MAIN = 4, 8, 4  # bytes a parameter
_BUFFERS = 4  # messages: two sent, two received


@dataclass(frozen=True)
class Memory:
    """Bytes of a rank by kind; those absent are 0."""

    kinds: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.kinds.values())

    def __add__(self, other: "Memory") -> "Memory":
        return Memory({kind: self.kinds.get(kind, 0.0) + other.kinds.get(kind, 0.0) for kind in KINDS})

    def most(self, other: "Memory") -> "Memory":
        """The larger one: of calls that do not run at the same time."""
        return self if self.total >= other.total else other

    def missing(self, room: float) -> float:
        """Bytes beyond `room`; 0 where it fits."""
        return max(0.0, self.total - room)

    def misfit(self, room: float) -> str | None:
        """By how much it does not fit and what weighs most; None where it fits."""
        if not self.missing(room):
            return None
        largest = sorted(self.kinds.items(), key=lambda item: -item[1])[:3]
        told = ", ".join(f"{kind} {nbytes / GIB:.1f} GiB" for kind, nbytes in largest if nbytes)
        return f"{self.missing(room) / GIB:.1f} GiB too much: {self.total / GIB:.1f} of {room / GIB:.1f} GiB ({told})"


@dataclass(frozen=True)
class Stage:
    """A part of a model on a rank: layers, and whether it has the model's first and last."""

    layers: range
    first: bool
    last: bool


def stages_of(model: ModelSizes, layout: Layout, *, layers: Sequence[int] | None = None) -> tuple[Stage, ...]:
    """The stages of a line; `layers`: of each, or an even share (the first stages take what is left over)."""
    count, rest = divmod(model.layers, layout.pp)
    each = layers or [count + (stage < rest) for stage in range(layout.pp)]
    starts = [sum(each[:stage]) for stage in range(layout.pp)]
    spans = [range(start, start + own) for start, own in zip(starts, each, strict=True)]
    return tuple(Stage(span, s == 0, s == layout.pp - 1) for s, span in enumerate(spans))


def training_state(
    model: ModelSizes, stage: Stage, layout: Layout, *, dtype: str = "bfloat16", distributed_optimizer: bool = True
) -> Memory:
    """Weights, gradients and the optimizer's of a stage: what a trained model holds all the time.

    Without the padding of Megatron's buffers: below 64 numbers a parameter and 128 x dp in all, and without Adam's
    counts of steps."""
    parameters = model.stage_parameters(stage.layers, first=stage.first, last=stage.last, tp=layout.tp)
    shares = layout.dp * layout.cp if distributed_optimizer else 1
    state = MOMENTS + (MAIN if dtype != "float32" else 0)
    return Memory(
        {
            "weights": parameters * BYTES[dtype],
            "gradients": parameters * GRADIENT,
            "optimizer": parameters * state / shares,
        }
    )


def weights(model: ModelSizes, stage: Stage, layout: Layout, *, dtype: str = "bfloat16") -> Memory:
    """Of a frozen model, or of a copy in another layout."""
    parameters = model.stage_parameters(stage.layers, first=stage.first, last=stage.last, tp=layout.tp)
    return Memory({"weights": parameters * BYTES[dtype]})


def activations(
    model: ModelSizes,
    stage: Stage,
    layout: Layout,
    *,
    tokens: float,
    length: float,
    dtype: str = "bfloat16",
    attention: Attention = "flash",
    options: StageOptions = PLAIN,
) -> float:
    """Bytes from F to the end of B of one micro-batch (the quantity `activation` of a schedules Problem)."""
    if attention == "local":
        head, each = model.head, BYTES[dtype]
        kept = Activations(model.arch, head, layout.tp, each, options, layout.cp)
        experts = len(model.arch.expert_layers(stage.layers))
        return kept.nbytes(
            len(stage.layers),
            rows=tokens / length,
            length=length,
            first=stage.first,
            last=stage.last,
            with_experts=experts,
        )
    return flash_activations(model, stage, layout, tokens=tokens, options=options)


def flash_activations(
    model: ModelSizes, stage: Stage, layout: Layout, *, tokens: float, options: StageOptions = PLAIN
) -> float:
    """bfloat16, fused kernels, nothing of T x T kept, sequence parallel over tp; whole layers recomputed where told.

    A layer keeps 8 H a token of norms and inputs, and 4 A D + 4 K D + 6 I of attention and MLP (k x F in place of I
    with experts, and their k sorted copies of the token): schedules.transformer.memory for every head size."""
    arch, shares = model.arch, layout.tp * layout.cp
    inputs, whole = (
        (0, len(stage.layers)) if options.recompute is None else options.recompute.kept_layers(len(stage.layers))
    )
    experts = len(arch.expert_layers(stage.layers)) / max(1, len(stage.layers))
    mlp = 6 * arch.ffn_hidden_size * (1 - experts)
    if arch.experts is not None:
        mlp += experts * arch.experts.per_token * (6 * arch.experts.ffn_hidden_size + 2 * arch.hidden_size)
    heads = 4 * (arch.num_heads + arch.num_kv_heads) * arch.head_dim
    kept = whole * (8 * arch.hidden_size + heads + mlp) + inputs * 2 * arch.hidden_size
    if stage.last:
        vocabulary = pad_vocab(arch.vocab_size, tp=layout.tp) if model.head == "lm" else 0
        kept += 4 * arch.hidden_size + 4 * vocabulary
    return tokens * kept / shares


def training(
    model: ModelSizes,
    stage: Stage,
    layout: Layout,
    *,
    tokens: float,
    length: float,
    in_flight: float,
    dtype: str = "bfloat16",
    attention: Attention = "flash",
    distributed_optimizer: bool = True,
    options: StageOptions = PLAIN,
) -> Memory:
    """A training call: state, activations of `in_flight` micro-batches (`in_flight_1f1b`, or the order's own peak in
    micro-batches), the loss's logits, messages."""
    held = activations(
        model,
        stage,
        layout,
        tokens=tokens,
        length=length,
        dtype=dtype,
        attention=attention,
        options=options,
    )
    state = training_state(model, stage, layout, dtype=dtype, distributed_optimizer=distributed_optimizer)
    passing = {"activations": in_flight * held, "logits": logits(model, stage, layout, tokens=tokens)}
    return state + Memory(passing) + _buffers(model, layout, tokens=tokens, dtype=dtype)


def inference(
    model: ModelSizes,
    stage: Stage,
    layout: Layout,
    *,
    tokens: float,
    length: float,
    dtype: str = "bfloat16",
    attention: Attention = "flash",
) -> Memory:
    """A forward-only call: weights, the activations of one layer at a time, logits without a gradient."""
    one = Stage(stage.layers[:1], False, stage.last)
    held = activations(model, one, layout, tokens=tokens, length=length, dtype=dtype, attention=attention)
    passing = {"activations": held, "logits": logits(model, stage, layout, tokens=tokens) / 2}
    buffers = _buffers(model, layout, tokens=tokens, dtype=dtype)
    return weights(model, stage, layout, dtype=dtype) + Memory(passing) + buffers


def generation(
    model: ModelSizes, stage: Stage, layout: Layout, *, rows: float, length: float, dtype: str = "bfloat16"
) -> Memory:
    """Weights and a cache for `rows` rows a replica of `length` tokens, prompt and response; logits of one step."""
    vocabulary = pad_vocab(model.arch.vocab_size, tp=layout.tp) if stage.last else 0
    return weights(model, stage, layout, dtype=dtype) + Memory(
        {
            "cache": rows * length * cache_token_bytes(model, stage, layout, dtype=dtype),
            "logits": rows * vocabulary * 4.0,  # gathered over tp for sampling
        }
    )


def cache_token_bytes(model: ModelSizes, stage: Stage, layout: Layout, *, dtype: str = "bfloat16") -> float:
    """Keys and values of one token in a stage's layers, on one rank."""
    arch = model.arch
    return len(stage.layers) * 2 * arch.num_kv_heads * arch.head_dim * BYTES[dtype] / layout.tp


def logits(model: ModelSizes, stage: Stage, layout: Layout, *, tokens: float) -> float:
    """Float32 logits and their gradient while one micro-batch's loss is computed."""
    if not stage.last or model.head != "lm":
        return 0.0
    return 8.0 * tokens * pad_vocab(model.arch.vocab_size, tp=layout.tp) / (layout.tp * layout.cp)


def in_flight_1f1b(stage: int, *, stages: int, microbatches: int) -> int:
    """Micro-batches that a stage of a plain 1F1B order holds at once."""
    return min(microbatches, stages - stage)


def _buffers(model: ModelSizes, layout: Layout, *, tokens: float, dtype: str) -> Memory:
    if layout.pp == 1:
        return Memory()
    message = message_bytes(model, tokens=tokens, bytes_each=BYTES[dtype], tp=layout.tp, cp=layout.cp)
    return Memory({"buffers": _BUFFERS * message})

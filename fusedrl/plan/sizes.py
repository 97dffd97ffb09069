"""A model as a plan sees it: its architecture, its head, and how many parameters a rank holds of it. No torch here.

layer    q k v  H (A + 2 K) D (+ bias)    output  A D H    gated MLP  3 H I    norms  2 H (+ 2 D for q and k)
         with experts                     X 3 H F + router X H  in place of the MLP
ends     embedding V H;  last norm H;  LM head V H (none beside a tied embedding), or value head H

H hidden, A heads, K key-value heads, D head size, I MLP size, F an expert's, X experts, V padded vocabulary.
Tensor parallelism divides all but norms, routers and value heads, which each of its ranks holds whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from fusedrl.models.architecture import Architecture, pad_vocab
from fusedrl.plan.sheet import read_sheet

Head = Literal["lm", "value"]


@dataclass(frozen=True)
class ModelSizes:
    """name: of its sheet or folder, for messages. head: what its last stage ends with."""

    name: str
    arch: Architecture
    head: Head = "lm"

    def __hash__(self) -> int:
        return hash((self.name, self.head))  # an architecture with scaled rotary positions has no hash

    @property
    def layers(self) -> int:
        return self.arch.num_layers

    def with_head(self, head: Head) -> "ModelSizes":
        """The same body as a policy (lm) or as a critic or reward model (value)."""
        return replace(self, head=head)

    def parameters(self) -> int:
        """Of the whole model, its vocabulary padded as for one rank."""
        return self.stage_parameters(range(self.layers), first=True, last=True)

    def stage_parameters(self, layers: range, *, first: bool, last: bool, tp: int = 1) -> int:
        """That one of `tp` ranks holds of a stage with these layers; first, last: whether it has the model's ends."""
        return stage_parameters(self, layers, first, last, tp)

    def most_parameters(self, layers: Sequence[int], *, tp: int = 1) -> int:
        """Of the stage that has most, with so many layers on each stage: a rank's share."""
        starts = [sum(layers[:stage]) for stage in range(len(layers))]
        ends = len(layers) - 1
        return max(
            self.stage_parameters(range(start, start + count), first=s == 0, last=s == ends, tp=tp)
            for s, (start, count) in enumerate(zip(starts, layers, strict=True))
        )

    def tensor_sizes(self, limit: int) -> tuple[int, ...]:
        """Tensor parallel sizes up to `limit` that divide heads, key-value heads and MLP."""
        arch = self.arch
        widths = [arch.num_heads, arch.num_kv_heads, arch.ffn_hidden_size]
        if arch.experts is not None:
            widths.append(arch.experts.ffn_hidden_size)
        return tuple(tp for tp in range(1, limit + 1) if all(width % tp == 0 for width in widths))


def read_model(name: str, *, head: Head = "lm", key: str = "model") -> ModelSizes:
    """From a checkpoint folder with a config.json, or from a sheet: configs/plan/model/NAME.yaml, or a YAML file. `key`
    is named in errors."""
    if Path(name).is_dir():
        return ModelSizes(Path(name).resolve().name, Architecture.from_folder(name), head)
    sheet = read_sheet("model", name, key=key)
    return ModelSizes(Path(name).stem, Architecture.from_config(sheet.values, where=sheet.where), head)


def layer_parameters(arch: Architecture, *, tp: int = 1, with_experts: bool = False) -> int:
    """Of one layer, on one of `tp` ranks."""
    queries, keys = arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
    split = arch.hidden_size * 2 * (queries + keys) + (queries + 2 * keys if arch.qkv_bias else 0)
    whole = 2 * arch.hidden_size + (2 * arch.head_dim if arch.qk_norm else 0)
    if with_experts:
        assert arch.experts is not None
        split += arch.experts.count * 3 * arch.hidden_size * arch.experts.ffn_hidden_size
        whole += arch.experts.count * arch.hidden_size
    else:
        split += 3 * arch.hidden_size * arch.ffn_hidden_size
    return split // tp + whole


@lru_cache(maxsize=4096)
def stage_parameters(model: ModelSizes, layers: range, first: bool, last: bool, tp: int) -> int:
    """`ModelSizes.stage_parameters`, remembered: a search asks for the same stages over and over."""
    arch = model.arch
    experts = len(arch.expert_layers(layers)) if len(layers) else 0
    total = (len(layers) - experts) * layer_parameters(arch, tp=tp)
    if experts:
        total += experts * layer_parameters(arch, tp=tp, with_experts=True)
    vocabulary = pad_vocab(arch.vocab_size, tp=tp) // tp * arch.hidden_size
    if first:
        total += vocabulary
    if last:
        total += arch.hidden_size
        shared = arch.tied and first  # one table for both ends
        total += (0 if shared else vocabulary) if model.head == "lm" else arch.hidden_size
    return total

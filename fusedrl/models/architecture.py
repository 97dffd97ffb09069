"""What a Hugging Face config.json says about a model, and whether a layout can hold it.

Families: llama, mistral, qwen2, qwen3 (dense, RMSNorm, SwiGLU, rotary positions, grouped-query attention), and
qwen3_moe, which is qwen3 with experts. What the Megatron side would silently compute differently is refused here by
name. No torch: configs are validated with this.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusedrl.config.numbers import divisors
from fusedrl.data.json_object import JsonObject
from fusedrl.models.experts import FAMILY as WITH_EXPERTS
from fusedrl.models.experts import Experts, read_experts
from fusedrl.models.rope_settings import POSITIONS, UNSCALED, Rope, read_rope
from fusedrl.parallel.layout import Layout

FAMILIES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "qwen3_moe": "Qwen3Moe"}
VOCAB_MULTIPLE = 128


@dataclass(frozen=True)
class Architecture:
    """Sizes and switches of one model. vocab_size is the real one, padding comes with the layout."""

    family: str
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_hidden_size: int
    vocab_size: int
    max_position: int = 2048
    rms_norm_eps: float = 1e-6
    rope: Rope = UNSCALED
    tied: bool = False
    qkv_bias: bool = False
    initializer_range: float = 0.02
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None
    experts: Experts | None = None

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"model_type={self.family!r} is not one of {', '.join(FAMILIES)}")
        if (self.experts is None) == (self.family == WITH_EXPERTS):
            raise ValueError(f"model_type={self.family!r} has experts={self.experts}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_attention_heads={self.num_heads} is not a multiple of num_key_value_heads={self.num_kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even for rotary positions")

    @property
    def qk_norm(self) -> bool:
        """RMSNorm on each head's query and key (Qwen3)."""
        return self.family in ("qwen3", WITH_EXPERTS)

    @property
    def heads_per_group(self) -> int:
        return self.num_heads // self.num_kv_heads

    def expert_layers(self, layers: range | None = None) -> tuple[int, ...]:
        """Which of `layers`, or of all, have experts; counted from 0."""
        return () if self.experts is None else self.experts.among(layers or range(self.num_layers))

    @classmethod
    def from_folder(cls, folder: str | Path) -> "Architecture":
        path = Path(folder) / "config.json"
        if not path.is_file():
            raise ValueError(f"{folder} is no checkpoint folder: it has no config.json")
        return cls._from_object(JsonObject.read(path))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, where: str = "config.json") -> "Architecture":
        """From the content of a config.json, of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters)."""
        return cls._from_object(JsonObject.of(config, where=where))

    @classmethod
    def _from_object(cls, config: JsonObject) -> "Architecture":
        _refuse_unsupported(config)
        values = _values(config)
        try:
            return cls(**values)
        except ValueError as error:
            raise ValueError(f"{config.where}: {error}") from error

    def to_config(self, *, head: str = "lm", dtype: str = "float32") -> dict[str, Any]:
        """A config.json that transformers 4 and 5 read; head "value" is sequence classification with one label."""
        eos = list(self.eos_token_ids) if len(self.eos_token_ids) > 1 else next(iter(self.eos_token_ids), None)
        kind = "ForCausalLM" if head == "lm" else "ForSequenceClassification"
        scaling = {"rope_type": self.rope.type, **self.rope.scaling}
        config: dict[str, Any] = {
            "architectures": [FAMILIES[self.family] + kind],
            "model_type": self.family,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.ffn_hidden_size,
            "vocab_size": self.vocab_size,
            "max_position_embeddings": self.max_position,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope.theta,
            "rope_parameters": {"rope_theta": self.rope.theta, **scaling},
            "rope_scaling": None if self.rope.type == "default" else scaling,
            "tie_word_embeddings": self.tied,
            "attention_bias": False,
            "hidden_act": "silu",
            "initializer_range": self.initializer_range,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": eos,
            "pad_token_id": self.pad_token_id,
            "torch_dtype": dtype,
            "use_cache": True,
        }
        if self.experts is not None:
            config |= self.experts.to_config()
        if head == "value":
            config |= {"num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
        if self.family == "mistral":
            config["sliding_window"] = None
        return config


def pad_vocab(vocab_size: int, *, tp: int) -> int:
    """Rows of the embedding: the vocabulary rounded up once to a multiple of 128 x tp."""
    multiple = VOCAB_MULTIPLE * tp
    return -(-vocab_size // multiple) * multiple


def check_layout(arch: Architecture, layout: Layout, *, key: str) -> None:
    """Raise where the layout cannot hold the model; `key` is the config key of the layout, as the user wrote it."""
    tp_key, pp_key = f"{key}.tensor_model_parallel_size", f"{key}.pipeline_model_parallel_size"
    for size, name in (
        (arch.num_heads, "num_attention_heads"),
        (arch.num_kv_heads, "num_key_value_heads"),
        (arch.ffn_hidden_size, "intermediate_size"),
        *([(arch.experts.ffn_hidden_size, "moe_intermediate_size")] if arch.experts else []),
    ):
        if size % layout.tp:
            raise ValueError(
                f"{tp_key}={layout.tp} does not divide the model's {name}={size}{_advice(size, layout.tp)}"
            )
    if arch.num_layers % layout.pp:
        advice = _advice(arch.num_layers, layout.pp)
        raise ValueError(
            f"{pp_key}={layout.pp} does not divide the model's num_hidden_layers={arch.num_layers}{advice}"
        )


def _advice(size: int, asked: int) -> str:
    smaller = max(divisor for divisor in divisors(size) if divisor <= asked)
    return f"; set it to {smaller} or another divisor of {size}"


def _values(config: JsonObject) -> dict[str, Any]:
    """The fields of an Architecture, each of its type."""
    family, heads = config.text("model_type"), config.size("num_attention_heads")
    return {
        "family": family,
        "hidden_size": config.size("hidden_size"),
        "num_layers": config.size("num_hidden_layers"),
        "num_heads": heads,
        "num_kv_heads": config.size("num_key_value_heads", default=heads),
        "head_dim": _head_dim(config),
        "ffn_hidden_size": config.size("intermediate_size"),
        "vocab_size": config.size("vocab_size"),
        "max_position": config.size(POSITIONS, default=2048),
        "rms_norm_eps": config.number("rms_norm_eps", default=1e-6),
        "rope": read_rope(config),
        "tied": config.flag("tie_word_embeddings", default=False),
        "qkv_bias": family == "qwen2",
        "initializer_range": config.number("initializer_range", default=0.02),
        "bos_token_id": config.token_id("bos_token_id"),
        "eos_token_ids": config.token_ids("eos_token_id"),
        "pad_token_id": config.token_id("pad_token_id"),
        "experts": read_experts(config),
    }


def _head_dim(config: JsonObject) -> int:
    if config.values.get("head_dim") is not None:
        return config.size("head_dim")
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    if hidden % heads:
        raise ValueError(
            f"{config.where}: hidden_size={hidden} is not a multiple of num_attention_heads={heads}; set head_dim"
        )
    return hidden // heads


def _refuse_unsupported(config: JsonObject) -> None:
    family, where = config.text("model_type"), config.where
    read_experts(config)
    if family not in FAMILIES:
        raise ValueError(f"{where}: model_type={family!r} is not supported; one of {', '.join(FAMILIES)} is")
    activation = config.text("hidden_act", default="silu")
    if activation != "silu":
        raise ValueError(f"{where}: hidden_act={activation!r} is not supported, only 'silu'")
    for name in ("attention_bias", "mlp_bias"):
        if config.flag(name, default=False):
            raise ValueError(f"{where}: {name}=true is not supported for model_type={family!r}")
    if config.flag("use_sliding_window", default=family == "mistral"):
        _refuse_sliding_window(config)


def _refuse_sliding_window(config: JsonObject) -> None:
    """A window that no sequence outgrows is no window."""
    positions = config.size(POSITIONS, default=2048)
    window = config.size("sliding_window", default=positions)
    if window < positions:
        raise ValueError(
            f"{config.where}: sliding_window={window} is shorter than {POSITIONS}={positions}; "
            "sliding windows are not supported"
        )

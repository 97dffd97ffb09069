"""What a Hugging Face config.json says about a model, and whether a layout can hold it.

Families: llama, mistral, qwen2, qwen3 (dense, RMSNorm, SwiGLU, rotary positions, grouped-query attention). What the
Megatron side would silently compute differently is refused here by name. No torch: configs are validated with this.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusedrl.parallel.layout import Layout

FAMILIES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
ROPE_TYPES = ("default", "linear", "llama3")
VOCAB_MULTIPLE = 128


@dataclass(frozen=True)
class Rope:
    """Rotary positions; `scaling` holds Hugging Face's numbers for its type (factor, low_freq_factor, ...)."""

    theta: float = 10000.0
    type: str = "default"
    scaling: Mapping[str, float] = field(default_factory=dict)


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
    rope: Rope = Rope()
    tied: bool = False
    qkv_bias: bool = False
    initializer_range: float = 0.02
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"model_type={self.family!r} is not one of {', '.join(FAMILIES)}")
        if self.rope.type not in ROPE_TYPES:
            raise ValueError(f"rope_type={self.rope.type!r} is not one of {', '.join(ROPE_TYPES)}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_attention_heads={self.num_heads} is not a multiple of num_key_value_heads={self.num_kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even for rotary positions")

    @property
    def qk_norm(self) -> bool:
        """RMSNorm on each head's query and key (Qwen3)."""
        return self.family == "qwen3"

    @property
    def heads_per_group(self) -> int:
        return self.num_heads // self.num_kv_heads

    @classmethod
    def from_folder(cls, folder: str | Path) -> "Architecture":
        path = Path(folder) / "config.json"
        if not path.is_file():
            raise ValueError(f"{folder} is no checkpoint folder: it has no config.json")
        return cls.from_config(json.loads(path.read_text()), where=str(path))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, where: str = "config.json") -> "Architecture":
        """From the content of a config.json, of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters)."""
        _refuse_unsupported(config, where)
        family, heads = config["model_type"], config["num_attention_heads"]
        eos = config.get("eos_token_id")
        return cls(
            family=family,
            hidden_size=config["hidden_size"],
            num_layers=config["num_hidden_layers"],
            num_heads=heads,
            num_kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or _default_head_dim(config, where),
            ffn_hidden_size=config["intermediate_size"],
            vocab_size=config["vocab_size"],
            max_position=config.get("max_position_embeddings", 2048),
            rms_norm_eps=config.get("rms_norm_eps", 1e-6),
            rope=_rope(config),
            tied=config.get("tie_word_embeddings", False),
            qkv_bias=family == "qwen2",
            initializer_range=config.get("initializer_range", 0.02),
            bos_token_id=config.get("bos_token_id"),
            eos_token_ids=tuple(eos) if isinstance(eos, list) else () if eos is None else (eos,),
            pad_token_id=config.get("pad_token_id"),
        )

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
    smaller = max(divisor for divisor in range(1, asked + 1) if size % divisor == 0)
    return f"; set it to {smaller} or another divisor of {size}"


def _default_head_dim(config: Mapping[str, Any], where: str) -> int:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    if hidden % heads:
        raise ValueError(
            f"{where}: hidden_size={hidden} is not a multiple of num_attention_heads={heads}; set head_dim"
        )
    return hidden // heads


def _rope(config: Mapping[str, Any]) -> Rope:
    new_style: Mapping[str, Any] = config.get("rope_parameters") or {}
    values = dict(new_style or config.get("rope_scaling") or {})
    theta = values.pop("rope_theta", None) or config.get("rope_theta") or 10000.0
    kind = values.pop("rope_type", None) or values.pop("type", None) or "default"
    values.pop("type", None)
    return Rope(theta=float(theta), type=kind, scaling={name: float(v) for name, v in values.items() if v is not None})


def _refuse_unsupported(config: Mapping[str, Any], where: str) -> None:
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ValueError(f"{where}: model_type={family!r} is not supported; one of {', '.join(FAMILIES)} is")
    if config.get("hidden_act", "silu") != "silu":
        raise ValueError(f"{where}: hidden_act={config['hidden_act']!r} is not supported, only 'silu'")
    for name in ("attention_bias", "mlp_bias"):
        if config.get(name):
            raise ValueError(f"{where}: {name}=true is not supported for model_type={family!r}")
    window = config.get("sliding_window") if config.get("use_sliding_window", family == "mistral") else None
    if window is not None and window < config.get("max_position_embeddings", 2048):
        raise ValueError(
            f"{where}: sliding_window={window} is shorter than max_position_embeddings="
            f"{config.get('max_position_embeddings')}; sliding windows are not supported"
        )

"""Checkpoint folders written by transformers itself: one per family, random weights."""

from pathlib import Path
from typing import Any

import pytest

COMMON: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 48,
    "vocab_size": 50,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
    "sliding_window": None,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 50.0, "factor": 8.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 50.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 2.0,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama3-tied": ("Llama", {"tie_word_embeddings": True, "rope_parameters": LLAMA3}),
    "mistral": ("Mistral", {"num_key_value_heads": 4, "rope_parameters": LINEAR}),
    "qwen2-tied": ("Qwen2", {"tie_word_embeddings": True, "head_dim": 8, "rope_parameters": YARN}),
    "qwen3": ("Qwen3", {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0}}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS | {"norm_topk_prob": True, "mlp_only_layers": [1]}),
    "qwen3_moe-tied": ("Qwen3Moe", EXPERTS | {"norm_topk_prob": False, "tie_word_embeddings": True}),
}


def write_family(name: str, folder: Path, *, kind: str = "ForCausalLM", **overrides: Any) -> Path:
    import torch
    import transformers

    family, options = FAMILIES[name]
    config = getattr(transformers, f"{family}Config")(**{**COMMON, **options, **overrides})
    torch.manual_seed(7)
    model = getattr(transformers, family + kind)(config)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms too, which transformers starts at 0 and 1
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder, max_shard_size="40KB" if "moe" in name else "5GB")  # in several files, with an index
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Family name -> language-model checkpoint."""
    return {name: write_family(name, tmp_path_factory.mktemp(name)) for name in FAMILIES}


@pytest.fixture(scope="session")
def value_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama checkpoint with a value head (sequence classification with one label)."""
    folder = tmp_path_factory.mktemp("value")
    return write_family("llama", folder, kind="ForSequenceClassification", num_labels=1)

"""Tiny random Hugging Face checkpoints, and Hugging Face's own greedy answer to compare with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

VOCAB = 300  # tp 1 pads it to 384; tp 2 to 512, and the second rank holds tokens 256 to 299
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": VOCAB,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama_tied_mha": {"tie_word_embeddings": True, "num_key_value_heads": 4},
    "llama3_rope": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    },
    "qwen2": {},
    "qwen2_tied": {
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 50.0,
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 2.0,
        },
    },
    "qwen3": {"head_dim": 16},
    "qwen3_tied": {
        "head_dim": 16,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "linear", "rope_theta": 50.0, "factor": 8.0},
    },
}
FAMILIES["qwen3_moe"] = {
    "head_dim": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "norm_topk_prob": True,
    "mlp_only_layers": [1],
}
# vLLM's attention on the CPU takes heads of 32 and more
WIDE = {"hidden_size": 128, "head_dim": 32, "initializer_range": 0.12}
FAMILIES |= {f"{name}_wide": FAMILIES[name] | WIDE for name in ("llama", "llama_tied_mha", "qwen2", "qwen3")}


def save(folder: Path, *, family: str, seed: int = 0) -> str:
    """Write a checkpoint whose norms and biases are random too; the folder as a string."""
    import transformers

    kind = family.split("_")[0].replace("llama3", "llama")
    name = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3Moe" if family == "qwen3_moe" else "Qwen3"}[kind]
    config = getattr(transformers, f"{name}Config")(**{**SHAPE, **FAMILIES[family]})
    torch.manual_seed(seed)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return str(folder)


@torch.no_grad()
def hugging_face_greedy(
    folder: str, prompts: Sequence[Sequence[int]], *, tokens: int
) -> list[tuple[list[int], list[float]]]:
    """(response, log-probs) of each prompt by the full forward, no cache: one position after the other.

    Right padding is never looked at by the tokens before it.
    """
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    length_B = torch.tensor([len(prompt) for prompt in prompts])
    row_B, width = torch.arange(len(prompts)), max(map(len, prompts)) + tokens
    tokens_BT = torch.tensor([[*prompt, *[0] * (width - len(prompt))] for prompt in prompts])
    found_B = []
    for step in range(tokens):
        logits_BTV = model(tokens_BT[:, : int(length_B.max()) + step]).logits
        logp_B, token_B = logits_BTV[row_B, length_B + step - 1].log_softmax(-1).max(-1)
        tokens_BT[row_B, length_B + step] = token_B
        found_B.append((token_B, logp_B))
    token_BR, logp_BR = (torch.stack(each, dim=1).tolist() for each in zip(*found_B, strict=True))
    return list(zip(token_BR, logp_BR, strict=True))

"""Which GPTModels the built-in engine can run; anything else is refused by name before a token is generated."""

from typing import Any


def check_supported(model: Any) -> None:
    """Raise ValueError naming the first thing about `model` that `decoder.CachedDecoder` does not compute."""
    for reason in _reasons(model):
        raise ValueError(f"rollout.name=megatron cannot run this model: {reason}")


def _reasons(model: Any) -> list[str]:
    config = model.config
    found = {
        f"normalization={config.normalization}, only RMSNorm": config.normalization != "RMSNorm",
        "zero-centred norm weights": bool(getattr(config, "layernorm_zero_centered_gamma", False)),
        f"num_moe_experts={config.num_moe_experts}, only dense layers": bool(config.num_moe_experts),
        "multi-latent attention": bool(getattr(config, "multi_latent_attention", False)),
        "gated attention": bool(getattr(config, "attention_output_gate", False)),
        "sliding-window attention": getattr(config, "window_size", None) is not None,
        "clamped activations": getattr(config, "activation_func_clamp_value", None) is not None,
        f"position_embedding_type={model.position_embedding_type}, only rope": model.position_embedding_type != "rope",
        "interleaved rotary pairs": bool(config.rotary_interleaved),
        f"rotary_percent={model.rotary_percent}, only 1.0": model.rotary_percent != 1.0,
        f"tensor_model_parallel_size={config.tensor_model_parallel_size} exceeds "
        f"num_query_groups={config.num_query_groups}": (
            config.num_query_groups is not None and config.tensor_model_parallel_size > config.num_query_groups
        ),
    }
    return [reason for reason, present in found.items() if present]

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
        **_of_experts(config),
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


def _of_experts(config: Any) -> dict[str, bool]:
    if not config.num_moe_experts:
        return {}
    wanted = {
        "moe_router_score_function": "softmax",
        "moe_router_num_groups": None,
        "moe_router_topk_scaling_factor": None,
        "moe_router_enable_expert_bias": False,
        "moe_shared_expert_intermediate_size": None,
        "moe_expert_capacity_factor": None,
        "moe_apply_probs_on_input": False,
        "moe_router_dtype": None,
        "moe_grouped_gemm": False,
        "moe_latent_size": None,
        "expert_model_parallel_size": 1,
    }
    found = {name: getattr(config, name, value) for name, value in wanted.items()}
    return {f"{name}={found[name]}, only {value}": found[name] != value for name, value in wanted.items()}

"""Checks of what a model sends between its replicas while other work goes on."""

from collections.abc import Iterator

from fusedrl.config.schema import MegatronConfig, PPOConfig

NEEDED = ("use_distributed_optimizer", "overlap_grad_reduce")


def check_ppo_overlap(config: PPOConfig) -> Iterator[str]:
    """Of the models that learn."""
    yield from check_overlap(config.actor_rollout_ref.actor.megatron, key="actor_rollout_ref.actor.megatron")
    yield from check_overlap(config.critic.megatron, key="critic.megatron")


def check_overlap(megatron: MegatronConfig, *, key: str) -> Iterator[str]:
    """Parameters are gathered by the distributed optimizer alone, and as Megatron-Core has it beside gradients."""
    missing = [name for name in NEEDED if not getattr(megatron, name)]
    if megatron.overlap_param_gather and missing:
        wanted = " and ".join(f"{key}.{name}=true" for name in missing)
        yield f"{key}.overlap_param_gather=true needs {wanted}; set {'it' if len(missing) == 1 else 'both'}"

"""Checks of rollout.inference=instances and of streaming: what they need, and what cannot be had with them."""

from collections.abc import Iterator, Mapping

from fusedrl.config.check_layout import PP, TP, ModelNumbers, check_tensor_split
from fusedrl.config.schema import PPOConfig, RolloutConfig

KEY = "actor_rollout_ref.rollout"


def check_stream(config: PPOConfig, *, world: int, models: Mapping[str, ModelNumbers]) -> Iterator[str]:
    """`models` by role; unknown ones are skipped."""
    rollout = config.actor_rollout_ref.rollout
    if rollout.streaming and rollout.inference != "instances":
        yield (
            f"{KEY}.streaming=true: finished samples are read on the generation engines, and "
            f"{KEY}.inference={rollout.inference}; set {KEY}.inference=instances"
        )
    if rollout.inference == "instances":
        yield from _check_instances(rollout)
        yield from _check_offload(config)
        for role in (role for role in ("critic", "ref", "reward") if role in models):
            yield from check_tensor_split(f"{KEY}.{TP} ({role})", getattr(rollout, TP), numbers=models[role])
    yield from _check_migration(rollout, engines=world // getattr(rollout, TP))


def _check_instances(rollout: RolloutConfig) -> Iterator[str]:
    if rollout.name != "megatron":
        yield (
            f"{KEY}.inference=instances reads with the built-in engine's model; {KEY}.name={rollout.name} has none: "
            f"set {KEY}.name=megatron, or {KEY}.inference=pipeline"
        )
    if getattr(rollout, PP) > 1:
        yield (
            f"{KEY}.inference=instances: an engine of one stage reads samples, and {KEY}.{PP}={getattr(rollout, PP)}; "
            f"set it to 1, or {KEY}.inference=pipeline"
        )


def _check_offload(config: PPOConfig) -> Iterator[str]:
    """There is no other reference or reward model than the copies."""
    layouts = {
        "actor_rollout_ref.ref.megatron": config.actor_rollout_ref.ref.megatron,
        "reward_model.megatron": config.reward_model.megatron,
    }
    for key in (key for key, layout in layouts.items() if layout.param_offload):
        yield (
            f"{key}.param_offload=true: with {KEY}.inference=instances a copy on the engines reads samples, which "
            f"{KEY}.offload_copies lets wait in CPU memory; set it to false"
        )


def _check_migration(rollout: RolloutConfig, *, engines: int) -> Iterator[str]:
    threshold, destinations = rollout.migration_threshold, rollout.migration_destinations
    if (threshold is None) != (destinations is None):
        given, missing = "migration_threshold", "migration_destinations"
        if threshold is None:
            given, missing = missing, given
        yield f"{KEY}.{given}={getattr(rollout, given)} alone; give {KEY}.{missing} too, or neither to have both chosen"
    if destinations is not None and engines > 1 and destinations >= engines:
        yield f"{KEY}.migration_destinations={destinations} of {engines} engines: nothing would move; lower it"

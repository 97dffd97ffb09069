"""Checks of rollout.partial_rollout: what it needs, and what cannot be had with it."""

from collections.abc import Iterator

from fusedrl.config.schema import PPOConfig

KEY = "actor_rollout_ref.rollout"


def check_partial(config: PPOConfig) -> Iterator[str]:
    rollout, batch = config.actor_rollout_ref.rollout, config.data.train_batch_size
    under_way = rollout.over_sampling_batch_size
    if not rollout.partial_rollout:
        if under_way is not None:
            yield f"{KEY}.over_sampling_batch_size={under_way} is not used; set {KEY}.partial_rollout=true"
        return
    if under_way is None:
        yield (
            f"{KEY}.partial_rollout=true: give {KEY}.over_sampling_batch_size, the prompts under way at once, more "
            f"than data.train_batch_size={batch}"
        )
    elif under_way <= batch:
        yield (
            f"{KEY}.over_sampling_batch_size={under_way} leaves none to carry on when data.train_batch_size={batch} "
            "are finished; raise it"
        )
    if rollout.inference == "instances":
        yield (
            f"{KEY}.partial_rollout=true with {KEY}.inference=instances: which samples finish first would depend on "
            f"the pace of the machine, and no run could be repeated; set {KEY}.inference=pipeline"
        )

"""Checks of actor.ptx: rows to learn beside the policy loss."""

from collections.abc import Iterator, Mapping

from fusedrl.config.budgets import ppo_budgets
from fusedrl.config.check_batches import check_paths, data_parallel
from fusedrl.config.check_layout import ModelNumbers
from fusedrl.config.schema import PPOConfig, TaskConfig

KEY = "actor_rollout_ref.actor.ptx"


def check_ptx(config: PPOConfig, *, world: int, models: Mapping[str, ModelNumbers]) -> Iterator[str]:
    actor = config.actor_rollout_ref.actor
    ptx = actor.ptx
    if not ptx.coeff:
        if ptx.files:
            yield f"{KEY}.files are given but not learnt; set {KEY}.coeff above 0, or leave them out"
        return
    if not ptx.files:
        yield f"{KEY}.coeff={ptx.coeff:g}: nothing to learn; give {KEY}.files, rows of prompt and answer"
    yield from check_paths(f"{KEY}.files", ptx.files, task=TaskConfig())
    dp = data_parallel(actor.megatron, world=world)
    if ptx.batch_size is not None and ptx.batch_size % dp:
        yield (
            f"{KEY}.batch_size={ptx.batch_size} does not divide over {dp} data-parallel replicas; make it a multiple "
            f"of {dp}"
        )
    budget = ppo_budgets(config).get("actor")
    if budget is not None and budget.tokens < budget.padded(ptx.max_length):
        needed = budget.padded(ptx.max_length)
        yield f"{budget.key}={budget.tokens} is below {KEY}.max_length={ptx.max_length}; raise it to {needed} or more"
    if "actor" in models and ptx.max_length > models["actor"].max_position:
        yield (
            f"{KEY}.max_length={ptx.max_length} exceeds the {models['actor'].max_position} positions of the actor; "
            "lower it"
        )

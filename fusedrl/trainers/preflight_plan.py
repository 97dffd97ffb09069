"""Whether an update can be planned before there is one: the schedule for its largest micro-batches, within memory."""

import math
from collections.abc import Mapping

import torch

from fusedrl.config.budgets import ppo_budgets, row_multiple
from fusedrl.config.check_layout import layouts
from fusedrl.config.derive import ModelSizes, derive_ppo
from fusedrl.config.ranks import ranks_of
from fusedrl.config.schema import PPOConfig
from fusedrl.models.architecture import Architecture
from fusedrl.parallel.placement import stages_a_column
from fusedrl.pipeline.plan import Planned, Shapes, plan_pass
from fusedrl.pipeline.results import largest_shape
from fusedrl.pipeline.tokens import rounded
from fusedrl.trainers.costs import planned_cost
from fusedrl.trainers.roles import stage_options


def plan_update(config: PPOConfig, models: Mapping[str, Architecture], *, world: int) -> None:
    """The schedule can be made for an update of the largest micro-batches: file, memory cap, placement."""
    sizes, actor, critic = derive_ppo(config, world=world), config.actor_rollout_ref.actor, config.critic
    keys = layouts(config)
    planned, shape = [], config.schedule.placement
    megatron = {"actor": actor.megatron, "critic": critic.megatron}
    for name in (name for name in megatron if name in models):
        layout = sizes.models[name]
        stages = layout.pp * stages_a_column(shape)
        planned.append(
            Planned(
                name,
                shapes=_shapes(config, name, layout, longest=sizes.max_sequence_length),
                pp=layout.pp,
                tp=layout.tp,
                dp=layout.dp,
                cp=layout.cp,
                reverse=name == "critic",
                shape=shape,
                ranks=ranks_of(megatron[name], world=world, key=keys[name][0]),
                cost=planned_cost(
                    config.schedule,
                    name,
                    models[name],
                    tp=layout.tp,
                    cp=layout.cp,
                    stages=stages,
                    dtype=getattr(torch, megatron[name].dtype),
                    options=stage_options(megatron[name]),
                ),
            )
        )
    schedule = config.schedule
    try:
        plan_pass(planned, method=schedule.method, memory_cap=schedule.memory_cap, comm=schedule.comm)
    except ValueError as error:
        asked = f"schedule.method={schedule.method}, schedule.memory_cap={schedule.memory_cap}"
        raise ValueError(f"{asked}: {error}") from error


def _shapes(config: PPOConfig, name: str, layout: ModelSizes, *, longest: int) -> Shapes:
    """(rows, length) of a replica's micro-batches of a model's update: none is larger. Given answers that the actor
    learns beside (ptx) are micro-batches of their own."""
    actor = config.actor_rollout_ref.actor
    found = _cut(config, name, layout, samples=actor.ppo_mini_batch_size, longest=longest)
    if name == "actor" and actor.ptx.coeff:
        samples = actor.ptx.batch_size or actor.ppo_mini_batch_size
        found += _cut(config, name, layout, samples=samples, longest=actor.ptx.max_length)
    return found


def _cut(config: PPOConfig, name: str, layout: ModelSizes, *, samples: int, longest: int) -> Shapes:
    budget, share = ppo_budgets(config).get(name), samples // layout.dp
    if budget is None:
        length = rounded(longest, row_multiple(layouts(config)[name][1]))
        return ((min(layout.micro_batch, share), length),) * math.ceil(share / layout.micro_batch)
    return (largest_shape(budget.shapes(share, length=longest)),) * budget.most(share, length=longest)

"""Planned costs of a role's stages: counted from its architecture, or the configuration's constants."""

from typing import Literal

import torch

from fusedrl.config.schema import ScheduleConfig
from fusedrl.models.architecture import Architecture
from fusedrl.models.options import PLAIN, StageOptions
from fusedrl.pipeline.costs import ConstantCost, Cost, CountedCost


def planned_cost(
    schedule: ScheduleConfig,
    role: str,
    architecture: Architecture,
    *,
    tp: int,
    stages: int,
    cp: int = 1,
    dtype: torch.dtype = torch.float32,
    options: StageOptions = PLAIN,
) -> Cost:
    """GFLOP and MiB of a rank, or constants (the critic's own, the actor's for every other role)."""
    if schedule.costs == "constant":
        constants = schedule.critic if role == "critic" else schedule.actor
        times = constants.forward, constants.backward
        return ConstantCost(*times, memory=constants.activation, weight_time=constants.backward_weight)
    head: Literal["lm", "value"] = "lm" if role in ("actor", "ref") else "value"
    layers = options.layers.over(stages, total=architecture.num_layers)
    return CountedCost(architecture, layers, head=head, tp=tp, bytes_each=dtype.itemsize, options=options, cp=cp)

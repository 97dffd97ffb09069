"""A model's part on a rank: one stage, or several where its placement is a V or interleaved.

One stage is its GPTModel; several are a ModuleList of them, in increasing stage. `stages_of` takes both, and so do the
functions that load, export, train and hand over a model.
"""

from typing import Any

import torch
import torch.distributed as dist
from megatron.core.models.gpt import GPTModel
from torch import nn

from fusedrl.models.architecture import Architecture
from fusedrl.models.build import Head, build_model
from fusedrl.models.implementation import AUTO, Implementation
from fusedrl.models.options import PLAIN, StageOptions
from fusedrl.parallel.groups import ProcessGroupCollection, groups_of_stage
from fusedrl.parallel.pipeline_view import plain
from fusedrl.parallel.placement import place_stages, stages_a_column


def build_stages(
    arch: Architecture,
    groups: ProcessGroupCollection,
    *,
    placement: str = "line",
    reverse: bool = False,
    head: Head = "lm",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    delay_weight_gradients: bool = False,
    implementation: Implementation = AUTO,
    options: StageOptions = PLAIN,
    key: str = "model",
) -> nn.Module:
    """This rank's stages of a model placed in one of `fusedrl.parallel.placement.SHAPES`; the groups know it, too."""
    pp = groups.pp.size()
    columns = place_stages(pp, shape=placement, reverse=reverse)
    if options.layers.even:
        check_stages(arch, pp=pp, placement=placement, key=key)
    mine = [stage for stage, column in enumerate(columns) if column == dist.get_rank(plain(groups.pp))]
    views = [groups_of_stage(groups, stage=stage, stages=len(columns)) for stage in mine]
    made: dict[str, Any] = {"head": head, "dtype": dtype, "seed": seed, "implementation": implementation, "key": key}
    made |= {"delay_weight_gradients": delay_weight_gradients, "options": options}
    stages = [build_model(arch, view, **made) for view in views]
    return stages[0] if len(stages) == 1 else nn.ModuleList(stages)


def check_stages(arch: Architecture, *, pp: int, placement: str, key: str) -> None:
    """Raise where the layers do not divide over the stages."""
    each = stages_a_column(placement)
    if each > 1 and arch.num_layers % (pp * each):
        raise ValueError(
            f"{key}.pipeline_model_parallel_size={pp} with placement={placement} makes {pp * each} stages; "
            f"they do not divide the model's num_hidden_layers={arch.num_layers}"
        )


def stages_of(model: nn.Module) -> list[GPTModel]:
    """The stages that a rank holds of a model, in increasing order."""
    return list(model) if isinstance(model, nn.ModuleList) else [model]

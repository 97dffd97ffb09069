"""Parameters of the distributed optimizer, gathered over the replicas while other work goes on.

    step       each replica updates its part of the parameters and begins to send it to the others
               ... the other model's step, metrics, plans, the first ops of the next pass ...
    settled    before the first forward of a stage, a hand-over, an export: all parts are there

Megatron's own overlap begins a gather in the hook of a module's forward, in the midst of a pass, where replicas may
stand at different messages, and whoever reads parameters without a forward sees old ones. So DistributedDataParallel is
made without it and the buckets alone get it: the optimizer's step begins all gathers, at the same place on all ranks,
and whoever reads parameters waits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from megatron.core.distributed import DistributedDataParallel
from torch import nn

from fusedrl.models.stages import stages_of

_buckets: "WeakKeyDictionary[nn.Module, Sequence[Any]]" = WeakKeyDictionary()
"""Stage -> its bucket groups, of stages whose parameters may be under way."""


def gather_asynchronously(models: Iterable[DistributedDataParallel]) -> None:
    """Let the optimizer's steps begin to gather parameters, and forwards of the stages wait for them."""
    for model in models:
        groups = (*model.bucket_groups, *model.expert_parallel_bucket_groups)
        for group in groups:
            group.ddp_config = replace(group.ddp_config, overlap_param_gather=True)
        _buckets[model.module] = groups
        model.module.register_forward_pre_hook(lambda stage, _: settle(stage))


def settle(module: nn.Module) -> None:
    """Wait until all parameters of a model's stages are there; at once where none are under way."""
    for stage in stages_of(module):
        for group in _buckets.get(stage, ()):
            if group.param_gather_handle is not None:
                group.finish_param_sync(skip_next_bucket_dispatch=True)


def under_way(module: nn.Module) -> bool:
    """Whether parameters of a model's stages have yet to arrive, as far as this rank has looked."""
    groups = [group for stage in stages_of(module) for group in _buckets.get(stage, ())]
    return any(group.param_gather_handle is not None for group in groups)

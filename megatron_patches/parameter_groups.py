"""Building an optimizer for a model that lies on some of the job's ranks.

What:     while an optimizer is built, megatron.core.optimizer gathers keys of parameter groups over the model's ranks.
Why:      it does so over the whole job, and ranks that hold no part of the model build no optimizer: the gather hangs,
          or meets another model's.
Versions: megatron-core 0.16 to 0.19.
Remove:   when `_get_param_groups` takes a process group; take `within` out of fusedrl.models.training.

Not a matter of the CPU, and no part of `apply()`: fusedrl.models.training enters it. Only the name `torch` of that one
module is changed, and only meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import megatron.core.optimizer as place
import torch
import torch.distributed as dist

NAME = "parameter_groups"


class _Instead:
    """Some names of a module are others, all else is the module's."""

    def __init__(self, module: Any, **names: Any) -> None:
        self.__dict__.update(names, _module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextmanager
def within(group: dist.ProcessGroup) -> Iterator[None]:
    """Gathers of megatron.core.optimizer go over `group`."""

    def gather(found: list[Any], mine: Any) -> None:
        dist.all_gather_object(found, mine, group=group)

    over = _Instead(dist, all_gather_object=gather, get_world_size=lambda: dist.get_world_size(group))
    names = vars(place)
    names["torch"] = _Instead(torch, distributed=over)
    try:
        yield
    finally:
        names["torch"] = torch

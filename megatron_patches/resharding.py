"""Weight hand-over between layouts (megatron.core.resharding) over gloo and CPU tensors.

What:     the gloo copy service and the plan's execution use torch.cpu's no-op streams.
Why:      they make a `torch.cuda.Stream`, which raises without a GPU.
Versions: megatron-core 0.16 to 0.19.
Remove:   when the gloo service makes no stream for CPU tensors; take this module out of PATCHES.
"""

from megatron_patches.retarget import functions_of, retarget, retarget_all

NAME = "resharding"
PLACES = ("megatron.core.resharding.copy_services.gloo_copy_service",)
# Names streams and events from 0.17 on; has nothing to change before.
SINCE_0_17 = ("megatron.core.resharding.execution",)


def apply() -> None:
    retarget_all(PLACES)
    for place in SINCE_0_17:
        for function in functions_of(place):
            retarget(function)

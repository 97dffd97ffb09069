"""Distributed data parallel gradient buffers on the CPU.

What:     the gradient and parameter buffers of DistributedDataParallel live on the CPU; stream calls become no-ops.
Why:      they are allocated on `torch.cuda.current_device()`.
Versions: megatron-core 0.16 to 0.19.
Remove:   when Megatron allocates the buffers on the parameters' device; take this module out of PATCHES.
"""

from megatron_patches.retarget import retarget_all

NAME = "gradients"
PLACES = (
    "megatron.core.distributed.param_and_grad_buffer",
    "megatron.core.distributed.distributed_data_parallel",
)


def apply() -> None:
    retarget_all(PLACES)

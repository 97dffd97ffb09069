"""Tensor-parallel layers and collectives on the CPU.

What:     functions of megatron.core.tensor_parallel.{layers,mappings,utils} and the global memory buffer allocate
          on the CPU.
Why:      they ask `torch.cuda.current_device()` for a device, which raises without a GPU.
Versions: megatron-core 0.16 to 0.19.
Remove:   when Megatron allocates on its parameters' device; take this module out of PATCHES.
"""

from megatron_patches.retarget import retarget_all

NAME = "layers"
PLACES = (
    "megatron.core.tensor_parallel.layers",
    "megatron.core.tensor_parallel.mappings",
    "megatron.core.tensor_parallel.utils",
    "megatron.core.utils:GlobalMemoryBuffer",
)


def apply() -> None:
    retarget_all(PLACES)

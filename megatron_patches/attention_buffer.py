"""The scratch buffer that unfused attention asks for.

What:     makes Megatron's process-wide GlobalMemoryBuffer where there is none.
Why:      DotProductAttention (the only attention on CPU) takes its scratch from `parallel_state`, which makes it only
          in `initialize_model_parallel`; we pass our own process groups and never call that. So do sequence-parallel
          layers. No matter of the CPU alone: models are built with it on CUDA, too.
Versions: megatron-core 0.16 to 0.19.
Remove:   when DotProductAttention allocates its own scratch; take this module out of PATCHES.
"""

import inspect

from megatron.core import parallel_state

from megatron_patches.retarget import PatchError

NAME = "attention_buffer"


def apply() -> None:
    make = getattr(parallel_state, "_set_global_memory_buffer", None)
    if make is None or inspect.signature(make).parameters:
        raise PatchError(
            "parallel_state._set_global_memory_buffer() is not there or takes arguments in this Megatron-Core"
        )
    if getattr(parallel_state, "_GLOBAL_MEMORY_BUFFER", None) is None:
        make()

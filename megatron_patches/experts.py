"""Routers of mixtures of experts on the CPU, and without Transformer Engine.

What:     functions of megatron.core.transformer.moe.router keep weights and counts on the CPU; `moe_utils` knows that
          it has no kernel of Transformer Engine for a router's product where it could not import one.
Why:      a router whose weight lies on the CPU moves it to `torch.cuda.current_device()` in its forward; and it asks
          whether `te_general_gemm` is None, a name that a failed import leaves undefined. The latter is no matter of
          the CPU alone: models with experts call `define_kernel` where they are built, on CUDA, too.
Versions: megatron-core 0.16 to 0.19.
Remove:   when routers leave their weights where they are, and define the name; take this module out of PATCHES.
"""

import inspect

from megatron.core.transformer.moe import moe_utils

from megatron_patches.retarget import PatchError, retarget_all

NAME = "experts"
PLACES = ("megatron.core.transformer.moe.router",)
KERNEL = "te_general_gemm"


def define_kernel() -> None:
    """Say that there is none, where nothing is said."""
    if KERNEL not in inspect.getsource(moe_utils):
        raise PatchError(
            f"{moe_utils.__name__} mentions no {KERNEL}: this Megatron-Core needs no such patch, or moved it"
        )
    if not hasattr(moe_utils, KERNEL):
        setattr(moe_utils, KERNEL, None)


def apply() -> None:
    retarget_all(PLACES)
    define_kernel()

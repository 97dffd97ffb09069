"""The tensor-parallel random tracker on the CPU's generator.

What:     `_get_cuda_rng_state` and `_set_cuda_rng_state` read and set torch's CPU generator; CudaRNGStatesTracker.add
          and model_parallel_cuda_manual_seed seed it. Attention enters this tracker's fork around dropout, even at p=0.
Why:      the state of a CUDA generator cannot be read without a GPU.
Versions: megatron-core 0.16 to 0.19.
Remove:   when the tracker takes its generator from the accelerator API; take this module out of PATCHES.
"""

import inspect

import torch
from megatron.core.tensor_parallel import random

from megatron_patches.retarget import PatchError, retarget_all

NAME = "rng"
# torch.random has the calls of torch.cuda that these two make: get_rng_state, manual_seed.
SEEDING = (
    "megatron.core.tensor_parallel.random:CudaRNGStatesTracker.add",
    "megatron.core.tensor_parallel.random:model_parallel_cuda_manual_seed",
)


def get_rng_state(device: object = "cpu", clone: bool = False, graph_safe: bool = False) -> torch.Tensor:
    """Stands for _get_cuda_rng_state; CUDA graphs do not exist here."""
    assert not graph_safe, "CUDA-graph-safe random states need CUDA"
    return torch.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: object = -1, graph_safe: bool = False) -> None:
    """Stands for _set_cuda_rng_state."""
    assert not graph_safe, "CUDA-graph-safe random states need CUDA"
    torch.set_rng_state(new_state)


def apply() -> None:
    for name, ours in (("_get_cuda_rng_state", get_rng_state), ("_set_cuda_rng_state", set_rng_state)):
        theirs = list(inspect.signature(getattr(random, name)).parameters)
        if theirs != list(inspect.signature(ours).parameters):
            raise PatchError(f"{random.__name__}.{name} takes {theirs} in this Megatron-Core")
        setattr(random, name, ours)
    retarget_all(SEEDING, words={"cuda": "random"})

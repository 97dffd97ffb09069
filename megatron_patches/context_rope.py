"""Rotary positions of a context-parallel rank's share of a row, on the CPU.

What:     `get_pos_emb_on_this_cp_rank` takes its two chunks of the table without pinned memory and a copy to CUDA.
Why:      it makes their indices with `pin_memory=True` and `.cuda(non_blocking=True)`, whose likes a CPU has not.
Versions: megatron-core 0.16 to 0.19.
Remove:   when Megatron makes the indices on the table's device; take this module out of PATCHES.
"""

import inspect

import torch
from megatron.core.models.common.embeddings import rope_utils, rotary_pos_embedding
from torch import Tensor

from megatron_patches.retarget import PatchError

NAME = "context_rope"
FUNCTION = "get_pos_emb_on_this_cp_rank"


def get_pos_emb_on_this_cp_rank(pos_emb: Tensor, seq_dim: int, cp_group: torch.distributed.ProcessGroup) -> Tensor:
    """Chunks i and 2 cp - 1 - i of the positions, on rank i of cp."""
    chunks = pos_emb.chunk(2 * cp_group.size(), dim=seq_dim)
    return torch.cat([chunks[cp_group.rank()], chunks[-1 - cp_group.rank()]], dim=seq_dim)


def apply() -> None:
    for module in (rope_utils, rotary_pos_embedding):
        if not hasattr(module, FUNCTION):
            raise PatchError(f"{module.__name__} has no {FUNCTION}: this Megatron-Core moved it")
        theirs = list(inspect.signature(getattr(module, FUNCTION)).parameters)
        if theirs != list(inspect.signature(get_pos_emb_on_this_cp_rank).parameters):
            raise PatchError(f"{module.__name__}.{FUNCTION} takes {theirs} in this Megatron-Core")
        setattr(module, FUNCTION, get_pos_emb_on_this_cp_rank)

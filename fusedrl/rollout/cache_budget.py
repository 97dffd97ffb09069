"""How many tokens of keys and values a GPU leaves room for; every rank that generates takes the same number."""

from typing import Any

import torch
import torch.distributed as dist


def gpu_tokens(model: Any, *, share: float, max_length: int, max_rows: int, group: Any = None) -> int | None:
    """Tokens in `share` of the memory that is free now, on the GPU that has least; a collective of `group`.

    None where the device is no GPU, or has room for `max_rows` rows of `max_length` tokens.
    """
    device = next(model.parameters()).device
    if device.type != "cuda":
        return None
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    found = torch.tensor([int(free * share) // token_bytes(model)], device=device)
    dist.all_reduce(found, op=dist.ReduceOp.MIN, group=group)
    return int(found) if int(found) < max_rows * max_length else None


def token_bytes(model: Any) -> int:
    """Bytes of one token's keys and values in this rank's layers and key-value groups."""
    layers = model.decoder.layers
    attention = layers[0].self_attention
    values = attention.num_query_groups_per_partition * attention.hidden_size_per_attention_head
    return len(layers) * 2 * values * next(model.parameters()).element_size()

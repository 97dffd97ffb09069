"""From a whole sequence's positions to the response's tokens, and response masks. B samples, S sequence, T response.

tokens    [p0 p1 | r0 r1 r2 pad]      rows are right padded, each with its own prompt length (here 2)
outputs    o0 o1   o2 o3 o4 o5        what the model gives at a position belongs to the *next* token:
r0 r1 r2 take  o1 o2 o3               log-probability of the token, and the value before it is emitted
"""

import torch
from torch import Tensor


def response_mask(lengths_B: Tensor, *, width: int) -> Tensor:
    """bool [B, width]: the first lengths_B[b] tokens count. By length, never by id: pad may equal an end token."""
    if len(lengths_B) and int(lengths_B.max()) > width:
        raise ValueError(f"a response has {int(lengths_B.max())} tokens, more than data.max_response_length {width}")
    return torch.arange(width, device=lengths_B.device) < lengths_B[:, None]


def mask_through_stop(tokens_BT: Tensor, *, stop_token_ids: frozenset[int]) -> Tensor:
    """bool [B, T]: up to and including the first stop token; all tokens where there is none."""
    stop_ids = torch.tensor(sorted(stop_token_ids), dtype=tokens_BT.dtype, device=tokens_BT.device)
    stops_BT = torch.isin(tokens_BT, stop_ids)
    stopped_before_BT = (stops_BT.cumsum(dim=1) - stops_BT.long()) > 0
    return ~stopped_before_BT


def outputs_for_response(outputs_BS: Tensor, prompt_lengths_B: Tensor, *, width: int) -> Tensor:
    """[B, width]: the model's output *before* each response token; beyond the row, its last output again (masked).

    Differentiable: the gradient returns to the gathered positions.
    """
    if len(prompt_lengths_B) and int(prompt_lengths_B.min()) < 1:
        raise ValueError("a prompt has no token: nothing predicts the first response token; filter such prompts")
    positions_BT = prompt_lengths_B[:, None] - 1 + torch.arange(width, device=outputs_BS.device)
    return outputs_BS.gather(1, positions_BT.clamp(max=outputs_BS.shape[1] - 1))


def label_mask(token_mask_BS: Tensor) -> Tensor:
    """[B, S - 1]: a mask on tokens, moved to the positions that predict them (the first token is predicted by none)."""
    return token_mask_BS[:, 1:]

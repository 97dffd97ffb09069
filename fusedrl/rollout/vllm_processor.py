"""`fusedrl.rollout.vllm_draw` as vLLM's processor of logits. Importing this imports vLLM."""

from typing import Any

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import LogitsProcessor

from fusedrl.rollout.vllm_draw import Draw


class DrawProcessor(LogitsProcessor):
    """One an engine; vLLM calls `update_state` before each forward and `apply` behind it."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._draw = Draw(device=device)

    def is_argmax_invariant(self) -> bool:
        """No: the drawn token is seldom the likeliest. So vLLM applies it to greedy requests, as all of ours are."""
        return False

    def update_state(self, batch_update: Any) -> None:
        self._draw.update(batch_update)

    def apply(self, logits: Tensor) -> Tensor:
        return self._draw.apply(logits)

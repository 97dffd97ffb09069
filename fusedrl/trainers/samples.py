"""The samples of a step as padded tensors, the same on every rank.

    tokens_BS   [p0 p1 p2 | r0 r1 pad]        rows are right padded, each with its own prompt length
    *_BR        [          r0 r1 pad pad]     what belongs to response tokens starts at column 0

Masks come from lengths, never from token ids: a pad id may equal an end id.
Shapes: B samples, S longest prompt + response, R data.max_response_length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fusedrl.rl.alignment import response_mask
from fusedrl.rollout.requests import Completion


@dataclass(frozen=True, eq=False)
class Samples:
    """tokens_BS and lengths int64, mask_BR bool, rollout_logp_BR fp32 as the engine saw them; ended_B: responses that
    came to their end token, None where all did."""

    tokens_BS: Tensor
    prompt_lengths_B: Tensor
    response_lengths_B: Tensor
    mask_BR: Tensor
    rollout_logp_BR: Tensor
    ended_B: Tensor | None = None

    @property
    def size(self) -> int:
        return self.tokens_BS.shape[0]

    @property
    def width(self) -> int:
        """R, the width of response tensors."""
        return self.mask_BR.shape[1]

    @property
    def lengths_B(self) -> Tensor:
        return self.prompt_lengths_B + self.response_lengths_B


def gather_samples(completions: Sequence[Completion], *, max_response_length: int, pad_id: int) -> Samples:
    """Completions, in the order given, as one batch."""
    prompts = torch.tensor([len(c.prompt) for c in completions])
    responses = torch.tensor([len(c.tokens) for c in completions])
    return Samples(
        tokens_BS=_padded([[*c.prompt, *c.tokens] for c in completions], fill=pad_id, dtype=torch.int64),
        prompt_lengths_B=prompts,
        response_lengths_B=responses,
        mask_BR=response_mask(responses, width=max_response_length),
        rollout_logp_BR=_padded(
            [c.logprobs for c in completions], fill=0.0, dtype=torch.float32, width=max_response_length
        ),
        ended_B=torch.tensor([c.finish_reason == "stop" for c in completions]),
    )


def _padded(rows: Sequence[Sequence[float]], *, fill: float, dtype: torch.dtype, width: int | None = None) -> Tensor:
    width = max(map(len, rows)) if width is None else width
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], dtype=dtype)

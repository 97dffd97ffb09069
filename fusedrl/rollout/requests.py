"""What goes into an engine and what comes out: a request for one sample, and its completion.

A request may carry tokens generated earlier (after a preemption or a move to another engine): the engine prefills them
behind the prompt and goes on at the next position, with the same random numbers as if nothing had happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fusedrl.rollout.sampling import SamplingParams

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One sample to generate. Requests with equal prompts share one prefill when they are admitted together."""

    sample_id: int
    prompt: tuple[int, ...]
    params: SamplingParams
    response: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError(f"sample {self.sample_id}: an empty prompt has no token to continue from")
        if len(self.response) != len(self.logprobs):
            raise ValueError(
                f"sample {self.sample_id}: {len(self.response)} response tokens but {len(self.logprobs)} logprobs"
            )

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.prompt + self.response


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A finished sample. `tokens` is the response, with the stop token where there is one; `logprobs` one each."""

    sample_id: int
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason

    @staticmethod
    def without_a_token(request: Request) -> "Completion":
        """What a request without room for one more token comes to."""
        return Completion(
            sample_id=request.sample_id,
            prompt=request.prompt,
            tokens=request.response,
            logprobs=request.logprobs,
            finish_reason="length",
        )

    def to_wire(self) -> dict[str, Any]:
        """Plain values for msgpack; tokens and log-probs as little-endian bytes. The prompt stays with its owner."""
        return {
            "id": self.sample_id,
            "tokens": np.asarray(self.tokens, dtype="<i4").tobytes(),
            "logprobs": np.asarray(self.logprobs, dtype="<f4").tobytes(),
            "reason": self.finish_reason,
        }

    @staticmethod
    def from_wire(wire: Mapping[str, Any], *, prompt: tuple[int, ...]) -> "Completion":
        """Inverse of `to_wire`; the prompt comes from the request of the same id."""
        return Completion(
            sample_id=wire["id"],
            prompt=prompt,
            tokens=tuple(np.frombuffer(wire["tokens"], dtype="<i4").tolist()),
            logprobs=tuple(np.frombuffer(wire["logprobs"], dtype="<f4").tolist()),
            finish_reason=wire["reason"],
        )


def samples_of(
    prompts: Mapping[int, tuple[int, ...]] | list[tuple[int, ...]], *, n: int, params: SamplingParams
) -> list[Request]:
    """`n` requests per prompt; sample ids are prompt index * n + copy."""
    pairs = prompts.items() if isinstance(prompts, Mapping) else enumerate(prompts)
    return [
        Request(sample_id=index * n + copy, prompt=tuple(prompt), params=params)
        for index, prompt in pairs
        for copy in range(n)
    ]

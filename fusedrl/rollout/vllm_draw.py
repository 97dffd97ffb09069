"""Our sampling inside vLLM: a processor of logits draws each row's token, and leaves vLLM no other to take.

vLLM's own sampler cannot give what the trainer needs. Its log-probabilities are either those before temperature or
those after top-k and top-p, never the tempered, untruncated ones that `token_log_probs(temperature=...)` computes, and
a request's random numbers come from a generator with a state, which a preempted or moved sample would not find again.
So vLLM is told to be greedy, and before it looks, each row becomes

    logits_V  ->  -inf everywhere but at the token that sampling.sample draws;  there: its log-probability

vLLM takes that token and reports the value that it finds there (logprobs_mode="processed_logits"). Random numbers are
those of the built-in engine: of (seed, step, sample id, position).

No vLLM here: `fusedrl.rollout.vllm_processor` wraps this for it. Legend: R rows of the batch, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fusedrl.rollout.randomness import sample_key, uniform
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import Controls, SamplingParams, sample

ENTRY = "fusedrl"  # where a request's numbers lie in vLLM's extra_args


class BatchChange(Protocol):
    """What vLLM tells a processor when rows come, go or change places; to be applied in this sequence."""

    removed: Sequence[int]
    added: Sequence[tuple[int, Any, list[int] | None, list[int]]]  # (row, params, prompt, output so far, growing)
    moved: Sequence[tuple[int, int, Any]]  # (from, to, one-way or swap)


@dataclass(frozen=True)
class Row:
    """One request's part in drawing. `output`: vLLM's own list, which grows with each token."""

    key: int
    params: SamplingParams
    prompt_length: int
    output: list[int]

    @property
    def position(self) -> int:
        """Of the token to draw, in the whole sequence."""
        return self.prompt_length + len(self.output)


def extra_args(request: Request) -> dict[str, dict[str, float]]:
    """What a request carries through vLLM: the key of its random numbers and its sampling parameters."""
    params = request.params
    numbers = {
        "key": sample_key(params.seed, step=params.step, sample_id=request.sample_id),
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
    }
    return {ENTRY: numbers}


class Draw:
    """The rows of vLLM's batch, kept in step with it, and the tokens that they draw."""

    def __init__(self, *, device: torch.device | str = "cpu") -> None:
        self._device = device
        self._rows: dict[int, Row] = {}
        self._fixed: tuple[Tensor, Controls] | None = None  # of the present rows: keys, controls

    def update(self, change: BatchChange | None) -> None:
        """Follow a change of the batch."""
        if change is None:
            return
        for index in change.removed:
            self._rows.pop(index, None)
        for index, params, prompt, output in change.added:
            self._rows[index] = _row(params.extra_args, prompt=prompt, output=output)
        for source, target, way in change.moved:
            moving, staying = self._rows.pop(source), self._rows.pop(target, None)
            self._rows[target] = moving
            if way.name == "SWAP":
                assert staying is not None, (source, target)
                self._rows[source] = staying
        self._fixed = None

    def apply(self, logits_RV: Tensor) -> Tensor:
        """The same tensor, with one finite entry a row: the drawn token's log-probability."""
        rows = [self._rows[index] for index in range(len(logits_RV))]
        key_R, controls = self._of_rows(rows, vocab_size=logits_RV.shape[1])
        position_R = torch.tensor([row.position for row in rows], dtype=torch.int64, device=self._device)
        token_R, logp_R = sample(
            logits_RV, uniform(key_R, position_R), controls=controls, vocab_size=logits_RV.shape[1]
        )
        return logits_RV.fill_(-torch.inf).scatter_(1, token_R[:, None], logp_R[:, None])

    def _of_rows(self, rows: Sequence[Row], *, vocab_size: int) -> tuple[Tensor, Controls]:
        if self._fixed is None or len(self._fixed[0]) != len(rows):
            key_R = torch.tensor([row.key for row in rows], dtype=torch.int64, device=self._device)
            params = [row.params for row in rows]
            self._fixed = key_R, Controls.of(params, vocab_size=vocab_size, device=self._device)
        return self._fixed


def _row(carried: Mapping[str, Any] | None, *, prompt: list[int] | None, output: list[int]) -> Row:
    assert carried is not None, "a request that fusedrl.rollout.vllm did not make"
    assert prompt is not None
    numbers = carried[ENTRY]
    params = SamplingParams(temperature=numbers["temperature"], top_p=numbers["top_p"], top_k=int(numbers["top_k"]))
    return Row(int(numbers["key"]), params, len(prompt), output)

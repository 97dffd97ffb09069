"""An engine and models that sleep for as long as their costs say: all of the stream is real but the computing.

Responses have the lengths that are asked for; their tokens and log-probabilities are functions of sample and position,
so that a token lost or doubled by a move shows. Keys and values are a number a token, and travel between the ranks.

    step: prefill what is seated (its first token), one more token for every live row; sleep prefill + step_ms(rows)
"""

import heapq
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fusedrl.bench.emulated import sleep_until
from fusedrl.rollout.requests import Completion, Request
from fusedrl.stream.costs import StreamCosts


def emulated_tokens(sample_id: int, *, start: int, stop: int) -> tuple[int, ...]:
    """The response tokens of a sample at positions start to stop."""
    return tuple(((np.arange(start, stop) * 31 + sample_id * 7919) % 50021).tolist())


def emulated_logprobs(sample_id: int, *, start: int, stop: int) -> tuple[float, ...]:
    positions = (np.arange(start, stop) * 13 + sample_id * 101) % 97
    return tuple((-positions / np.float32(97)).astype(np.float32).tolist())


class EmulatedEngine:
    """The methods of MegatronEngine that a stream needs. lengths: response tokens of each sample."""

    def __init__(self, lengths: Mapping[int, int], *, costs: StreamCosts) -> None:
        self.max_rows = costs.max_rows
        self._lengths, self._costs = lengths, costs
        self._waiting: list[Request] = []
        self._rows: dict[int, tuple[Request, int, int]] = {}  # request, its tokens when seated, the step of that
        self._endings: list[tuple[int, int]] = []  # (step that ends it, sample), of extracted ones too
        self._steps = 0

    @property
    def unfinished(self) -> int:
        return len(self._waiting) + len(self._rows)

    def add(self, requests: Sequence[Request]) -> None:
        self._waiting += requests

    def step(self) -> list[Completion]:
        began = time.perf_counter_ns()
        cost_ms = self._admit()
        done = self._collect()
        if self._rows:
            cost_ms += self._costs.decode.step_ms(len(self._rows))
            self._steps += 1
            done += self._collect()
        sleep_until(began + int(cost_ms * 1e6))
        return done

    def extract(self, sample_ids: Collection[int]) -> list[Request]:
        wanted = set(sample_ids)
        waiting = [request for request in self._waiting if request.sample_id in wanted]
        self._waiting = [request for request in self._waiting if request.sample_id not in wanted]
        for request in waiting:
            wanted.remove(request.sample_id)
        seated = [self._leave(sample_id) for sample_id in wanted]
        return sorted(waiting + seated, key=lambda request: request.sample_id)

    def extract_cached(
        self, sample_ids: Collection[int], *, moves: Callable[[Request], bool]
    ) -> tuple[list[Request], list[Request], Tensor]:
        """Keys and values are one number a token, the sample's id."""
        seated = {each for each in sample_ids if each in self._rows}
        requests = self.extract(sample_ids)
        moved = [each for each in requests if each.sample_id in seated and moves(each)]
        return requests, moved, self._numbers(moved)

    def empty_cache(self, requests: Sequence[Request]) -> Tensor:
        return torch.empty_like(self._numbers(requests))

    def add_cached(self, requests: Sequence[Request], packed: Tensor) -> None:
        """Seat them at once; sleeps for as long as their keys and values travel."""
        began, link = time.perf_counter_ns(), self._costs.link
        assert link is not None
        if not torch.equal(packed, self._numbers(requests)):
            raise AssertionError("samples came with the keys and values of others")
        for request in requests:
            self._seat(request, tokens=len(request.response))
        sleep_until(began + int(sum(link.transfer_ms(len(each.tokens)) for each in requests) * 1e6))

    def _numbers(self, requests: Sequence[Request]) -> Tensor:
        ids = torch.tensor([each.sample_id for each in requests], dtype=torch.int32)
        return ids.repeat_interleave(torch.tensor([len(each.tokens) for each in requests], dtype=torch.int64))

    def _admit(self) -> float:
        """Seat what fits; milliseconds of its prefill. Equal prompts that come together are prefilled once."""
        free = self.max_rows - len(self._rows)
        seated, self._waiting = self._waiting[:free], self._waiting[free:]
        for request in seated:
            self._seat(request, tokens=len(request.response) + 1)
        return self._costs.prefill_ms * sum(map(len, {request.tokens for request in seated}))

    def _seat(self, request: Request, *, tokens: int) -> None:
        length = self._lengths[request.sample_id]
        assert tokens <= length, f"sample {request.sample_id} is to go on beyond its {length} tokens"
        self._rows[request.sample_id] = (request, tokens, self._steps)
        heapq.heappush(self._endings, (self._steps + length - tokens, request.sample_id))

    def _length(self, sample_id: int) -> int:
        """Tokens of a seated sample's response now."""
        _, tokens, since = self._rows[sample_id]
        return tokens + self._steps - since

    def _leave(self, sample_id: int) -> Request:
        length, (request, _, _) = self._length(sample_id), self._rows[sample_id]
        del self._rows[sample_id]
        start = len(request.response)
        return Request(
            sample_id=sample_id,
            prompt=request.prompt,
            params=request.params,
            response=request.response + emulated_tokens(sample_id, start=start, stop=length),
            logprobs=request.logprobs + emulated_logprobs(sample_id, start=start, stop=length),
        )

    def _collect(self) -> list[Completion]:
        done = []
        while self._endings and self._endings[0][0] <= self._steps:
            _, sample_id = heapq.heappop(self._endings)
            if sample_id in self._rows and self._length(sample_id) >= self._lengths[sample_id]:
                whole = self._leave(sample_id)
                reason = "length" if len(whole.response) >= whole.params.max_tokens else "stop"
                done.append(
                    Completion(
                        sample_id=sample_id,
                        prompt=whole.prompt,
                        tokens=whole.response,
                        logprobs=whole.logprobs,
                        finish_reason=reason,  # type: ignore[arg-type]
                    )
                )
        return done


class EmulatedInference:
    """Models that sleep for each token; a result is one float32 a response token."""

    def __init__(self, infer_ms: Mapping[str, float]) -> None:
        self._infer_ms = infer_ms

    def infer(self, task: str, samples: Sequence[Completion]) -> dict[str, list[np.ndarray]]:
        began = time.perf_counter_ns()
        result = [np.asarray(sample.tokens, dtype="<f4") / (1 + len(task)) for sample in samples]
        tokens = sum(len(sample.prompt) + len(sample.tokens) for sample in samples)
        sleep_until(began + int(tokens * self._infer_ms[task] * 1e6))
        return {task: result}

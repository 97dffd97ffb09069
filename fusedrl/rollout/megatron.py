"""The built-in generation engine: continuous batching on a Megatron GPTModel, CPU or GPU, any tensor-parallel size.

    add(requests)                 requests wait
    step() -> completions         seat and prefill what fits, one token for every live row, return what is done
    generate(requests)            add, then step until all are done; in sample-id order
    extract(sample_ids)           take samples out, as requests that continue them elsewhere
    load(source)                  weights from the training layout

A finished row leaves at once and a waiting request takes its place at the next step. Every rank of the tensor-parallel
group makes the same calls with the same arguments; all of them get the same completions. What a sample generates
depends on its request alone (see randomness.py), up to the rounding of batched matrix products.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from fusedrl.rollout.cache import CacheShape, KeyValueCache
from fusedrl.rollout.decoder import CachedDecoder
from fusedrl.rollout.handover import HandOverReport, hand_over
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.rows import Rows
from fusedrl.rollout.sampling import sample


@dataclass
class EngineStats:
    """Work done since the engine was made or `reset` was called; seconds are of wall time."""

    prefill_tokens: int = 0
    decode_tokens: int = 0
    decode_steps: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


class MegatronEngine:
    """Generates with `model`, a GPTModel of `fusedrl.models.build_model` whose pipeline size is 1.

    `max_length` bounds prompt plus response, `max_rows` the samples generated at once, `prefill_tokens` the padded
    tokens of one prefill.
    """

    def __init__(self, model: Any, *, max_length: int, max_rows: int = 256, prefill_tokens: int = 8192) -> None:
        self.model = model
        self.vocab_size: int = model.arch.vocab_size  # the model's own is padded
        self.max_length, self.max_rows = max_length, max_rows
        self.stats = EngineStats()
        self._prefill_tokens = prefill_tokens
        with torch.inference_mode():
            self._decoder = CachedDecoder(model, max_length=max_length)
            device = self._decoder.device
            self._rows = Rows(slots=max_rows, max_length=max_length, vocab_size=self.vocab_size, device=device)
        self._cache = KeyValueCache(self._cache_shape())
        self._waiting: deque[Request] = deque()
        self._done: list[Completion] = []
        self._ids: set[int] = set()

    @property
    def unfinished(self) -> int:
        """Samples that wait or are being generated."""
        return len(self._ids)

    def add(self, requests: Sequence[Request]) -> None:
        """Queue requests. A sample id may be in flight once."""
        for request in requests:
            if request.sample_id in self._ids:
                raise ValueError(f"sample {request.sample_id} is already in flight")
            self._ids.add(request.sample_id)
            self._waiting.append(request)

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """Seat waiting requests and give every live row one more token; the samples that are done now."""
        self._admit()
        if len(self._rows):
            self._decode()
        done, self._done = self._done, []
        self._ids.difference_update(c.sample_id for c in done)
        return done

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """All completions, in sample-id order. The engine must be idle."""
        if self.unfinished:
            raise RuntimeError(f"generate() on an engine with {self.unfinished} unfinished samples: step() these first")
        self.add(requests)
        completions: list[Completion] = []
        while self.unfinished:
            completions += self.step()
        return sorted(completions, key=lambda c: c.sample_id)

    @torch.inference_mode()
    def extract(self, sample_ids: Collection[int]) -> list[Request]:
        """Take unfinished samples out, as requests that carry what they generated so far, in sample-id order."""
        wanted = set(sample_ids)
        missing = sorted(wanted - self._ids)
        if missing:
            raise ValueError(f"samples {missing} are not in flight")
        rows = [row for row, request in enumerate(self._rows.requests) if request.sample_id in wanted]
        taken = [self._rows.snapshot(row) for row in rows]
        taken += [request for request in self._waiting if request.sample_id in wanted]
        self._waiting = deque(request for request in self._waiting if request.sample_id not in wanted)
        self._drop(rows)
        self._ids -= wanted
        return sorted(taken, key=lambda r: r.sample_id)

    def load(self, source: nn.Module) -> HandOverReport:
        """Copy the weights of `source` (any layout) into this engine's model; a collective of all ranks.

        Cached keys and values belong to the old weights, so no sample may be half generated.
        """
        if len(self._rows):
            raise RuntimeError(
                f"weights change under {len(self._rows)} half-generated samples: finish or extract() them"
            )
        return hand_over(source, self.model)

    def release_cache(self) -> None:
        """Give the cache's memory back, for example while the model trains. The engine must be idle."""
        if len(self._rows):
            raise RuntimeError(f"the cache holds {len(self._rows)} half-generated samples: finish or extract() them")
        self._cache.release()

    def _cache_shape(self) -> CacheShape:
        decoder = self._decoder
        return CacheShape(
            layers=len(decoder.layers),
            rows=self.max_rows,
            max_length=self.max_length,
            groups=decoder.groups,
            head_dim=decoder.head_dim,
            dtype=decoder.dtype,
            device=decoder.device,
        )

    def _admit(self) -> None:
        admitted = self._take_waiting()
        for groups in _chunks(admitted, budget=self._prefill_tokens):
            with _timed(self.stats, "prefill_seconds"):
                self._prefill(groups)
        if admitted:
            self._collect()

    def _take_waiting(self) -> list[Request]:
        """The requests that get a row now. Those without room for one token are done without it."""
        taken: list[Request] = []
        while self._waiting and len(self._rows) + len(taken) < self.max_rows:
            request = self._waiting.popleft()
            room = min(len(request.prompt) + request.params.max_tokens, self.max_length) - len(request.tokens)
            if room > 0:
                taken.append(request)
            else:
                self._done.append(_without_a_token(request))
        return taken

    def _prefill(self, groups: list[list[Request]]) -> None:
        """Prefill one prompt per group and seat all requests of the groups; each gets its first token."""
        device, first = self._decoder.device, len(self._rows)
        prompts = [group[0].tokens for group in groups]
        longest = max(map(len, prompts))
        tokens_PT = torch.tensor([[*p, *[0] * (longest - len(p))] for p in prompts], device=device)
        lengths_P = torch.tensor([len(p) for p in prompts], device=device)
        prompt_R = torch.tensor([index for index, group in enumerate(groups) for _ in group], device=device)
        shared = len(prompt_R) > len(prompts)
        self._cache.reserve(longest)
        logits_PV = self._decoder.prefill(
            tokens_PT, lengths_P, cache=self._cache, first_row=first, prompt_R=prompt_R if shared else None
        )
        self._rows.append([request for group in groups for request in group])
        self._sample(logits_PV[prompt_R] if shared else logits_PV, first=first)
        self.stats.prefill_tokens += sum(map(len, prompts))

    def _decode(self) -> None:
        with _timed(self.stats, "decode_seconds"):
            rows = self._rows
            position_R = rows.length_R - 1
            length = int(rows.length_R.max())
            self._cache.reserve(length)
            logits_RV = self._decoder.decode(rows.last_token_R, position_R, cache=self._cache, length=length)
            self._sample(logits_RV, first=0)
            self.stats.decode_steps += 1
            self.stats.decode_tokens += len(rows)
            self._collect()

    def _sample(self, logits_RV: Tensor, *, first: int) -> None:
        controls = self._rows.controls(first=first)
        uniform_R = self._rows.uniforms(first=first)
        token_R, logp_R = sample(logits_RV, uniform_R, controls=controls, vocab_size=self.vocab_size)
        self._rows.record(token_R, logp_R, first=first)

    def _collect(self) -> None:
        finished = self._rows.finished()
        if finished:
            self._done += [self._rows.completion(row) for row in finished]
            self._drop(finished)

    def _drop(self, rows: Sequence[int]) -> None:
        source, target = self._rows.remove(rows)
        if len(source):
            self._cache.move(source=source, target=target, length=int(self._rows.length_R.max()))


def _chunks(requests: Sequence[Request], *, budget: int) -> Iterator[list[list[Request]]]:
    """Groups of requests with equal tokens, by length, cut so that a chunk's padded prompts hold `budget` tokens."""
    by_tokens: dict[tuple[int, ...], list[Request]] = {}
    for request in requests:
        by_tokens.setdefault(request.tokens, []).append(request)
    chunk: list[list[Request]] = []
    for tokens, group in sorted(by_tokens.items(), key=lambda item: len(item[0])):
        if chunk and (len(chunk) + 1) * len(tokens) > budget:
            yield chunk
            chunk = []
        chunk.append(group)
    if chunk:
        yield chunk


def _without_a_token(request: Request) -> Completion:
    return Completion(
        sample_id=request.sample_id,
        prompt=request.prompt,
        tokens=request.response,
        logprobs=request.logprobs,
        finish_reason="length",
    )


class _timed:
    """Adds the time of its block to one field of the stats."""

    def __init__(self, stats: EngineStats, field: str) -> None:
        self._stats, self._field = stats, field

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(self, *error: object) -> None:
        elapsed = perf_counter() - self._start
        setattr(self._stats, self._field, getattr(self._stats, self._field) + elapsed)

"""The built-in generation engine: continuous batching on a Megatron GPTModel, CPU or GPU, any tensor and pipeline size.

    add(requests)                 requests wait
    step() -> completions         seat what fits, one more token for every row, return what is done
    generate(requests)            add, then step until all are done; in sample-id order
    extract(sample_ids)           take samples out, as requests that continue them elsewhere, with their cache if asked
    load(source)                  weights from the training layout

A finished row leaves at once and a waiting request takes its place at the next step. Every rank of the replica (its
tensor and pipeline ranks) makes the same calls with the same arguments; all of them get the same completions. What a
sample generates depends on its request alone (see randomness.py), up to the rounding of batched matrix products.

On a pipeline several batches (lanes) are in flight, so that all stages work at once. A turn takes one lane through all
stages; a step is one turn of each lane. The tokens of a turn are recorded when the lane's next turn begins:

    stage 0   A1 B1 A2 B2 A3 B3 ...       A2 needs the tokens that stage 1 drew in A1
    stage 1      A1 B1 A2 B2 A3 ...

On one stage there is one lane and its tokens are recorded at once.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from fusedrl.rollout.cache import CacheShape
from fusedrl.rollout.cached_tokens import CachedTokens
from fusedrl.rollout.decoder import CachedDecoder, Decode, Prefill
from fusedrl.rollout.engine import generate_all
from fusedrl.rollout.handover import HandOverReport, hand_over
from fusedrl.rollout.lane import Lane, Waiting
from fusedrl.rollout.links import StageLinks
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import sample


@dataclass
class EngineStats:
    """Work of this rank since the engine was made; seconds are of wall time, waits for other stages included."""

    prefill_tokens: int = 0
    decode_tokens: int = 0
    decode_steps: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    preempted: int = 0  # rows given up for lack of cache
    shared_tokens: int = 0  # prompt tokens copied from a live row instead of prefilled
    cache_bytes_out: int = 0  # extracted with their samples
    cache_bytes_in: int = 0


class MegatronEngine:
    """Generates with `model`, this rank's stage of a GPTModel of `fusedrl.models.build_model`.

    max_length: of prompt plus response. max_rows: samples generated at once, over all lanes. prefill_tokens: padded
    tokens of one prefill. max_tokens: token places of the cache, shared evenly by the lanes; None: as many as all rows
    need. batches: lanes, by default one for each stage. With several stages the constructor is a collective of all
    ranks of the job.
    """

    def __init__(
        self,
        model: Any,
        *,
        max_length: int,
        max_rows: int = 256,
        prefill_tokens: int = 8192,
        max_tokens: int | None = None,
        batches: int | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        self.model = model
        self.vocab_size: int = model.arch.vocab_size  # the model's own is padded
        self.max_length, self.max_rows = max_length, max_rows
        self.stats = EngineStats()
        with torch.inference_mode():
            self._decoder = CachedDecoder(model, max_length=max_length)
        pp, decoder = model.pg_collection.pp, self._decoder
        self._links = StageLinks(
            pp, device=decoder.device, dtype=decoder.dtype, hidden=decoder.hidden, timeout_s=timeout_s
        )
        lanes = batches or pp.size()
        self.cache_shape = self._cache_shape(-(-max_rows // lanes), max_tokens=max_tokens, lanes=lanes)
        with torch.inference_mode():
            self._lanes = [self._lane(prefill_tokens) for _ in range(lanes)]
        self._waiting: deque[Waiting] = deque()
        self._done: list[Completion] = []
        self._ages: dict[int, int] = {}  # of all samples in flight: when they came
        self._came = 0

    @property
    def unfinished(self) -> int:
        """Samples that wait or are being generated."""
        return len(self._ages)

    def add(self, requests: Sequence[Request], *, cache: CachedTokens | None = None) -> None:
        """Queue requests. A sample id may be in flight once. Those in `cache` are seated without a prefill."""
        if cache is not None:
            cache.check(self.cache_shape)
        for request in requests:
            if request.sample_id in self._ages:
                raise ValueError(f"sample {request.sample_id} is already in flight")
            self._ages[request.sample_id], self._came = self._came, self._came + 1
            room = min(len(request.prompt) + request.params.max_tokens, self.max_length) - len(request.tokens)
            if room > 0:
                self._waiting.append(self._with_cache(request, cache))
            else:
                self._done.append(Completion.without_a_token(request))

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """One turn of each lane: rows are seated and every row gets a token; the samples that are done now."""
        for lane in self._lanes:
            self._turn(lane)
        done, self._done = self._done, []
        for completion in done:
            del self._ages[completion.sample_id]
        if not self._ages:
            self._links.finish()
        return done

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """All completions, in sample-id order. The engine must be idle."""
        return generate_all(self, requests)

    @overload
    def extract(self, sample_ids: Collection[int], *, with_cache: Literal[False] = False) -> list[Request]: ...
    @overload
    def extract(
        self, sample_ids: Collection[int], *, with_cache: Literal[True]
    ) -> tuple[list[Request], CachedTokens]: ...
    @torch.inference_mode()
    def extract(
        self, sample_ids: Collection[int], *, with_cache: bool = False
    ) -> list[Request] | tuple[list[Request], CachedTokens]:
        """Take unfinished samples out, as requests that carry what they generated so far, in sample-id order.

        with_cache: their keys and values, too, as (requests, cache); samples that had none yet are not in it. On a
        pipeline the turns under way end first: samples that are done by then are not extracted, the next step has them.
        """
        wanted = set(sample_ids)
        missing = sorted(wanted - self._ages.keys())
        if missing:
            raise ValueError(f"samples {missing} are not in flight")
        for lane in self._lanes:
            self._record(lane)
        taken = [self._extract_from(lane, wanted, with_cache=with_cache) for lane in self._lanes]
        taken += [[waiting for waiting in self._waiting if waiting.request.sample_id in wanted]]
        self._waiting = deque(waiting for waiting in self._waiting if waiting.request.sample_id not in wanted)
        found = sorted((w for some in taken for w in some), key=lambda w: w.request.sample_id)
        for w in found:
            del self._ages[w.request.sample_id]
        requests = [w.request for w in found]
        return (requests, self._packed(found)) if with_cache else requests

    def load(self, source: nn.Module) -> HandOverReport:
        """Copy the weights of `source` (any layout) into this engine's model; a collective of all ranks.

        Cached keys and values belong to the old weights, so no sample may be half generated.
        """
        if live := self._live:
            raise RuntimeError(f"weights change under {live} half-generated samples: finish or extract() them")
        return hand_over(source, self.model)

    def release_cache(self) -> None:
        """Give the cache's memory back, for example while the model trains. The engine must be idle."""
        if live := self._live:
            raise RuntimeError(f"the cache holds {live} half-generated samples: finish or extract() them")
        for lane in self._lanes:
            lane.cache.release()

    @property
    def _live(self) -> int:
        return sum(len(lane.rows) for lane in self._lanes)

    def _cache_shape(self, rows: int, *, max_tokens: int | None, lanes: int) -> CacheShape:
        """Of one lane."""
        decoder = self._decoder
        if max_tokens is not None and max_tokens // lanes < self.max_length:
            raise ValueError(
                f"rollout.max_total_tokens={max_tokens} gives each of {lanes} batches in flight a cache of "
                f"{max_tokens // lanes} tokens, but one sample may have {self.max_length} (prompt and response); "
                f"make it at least {lanes * self.max_length}"
            )
        return CacheShape(
            layers=len(decoder.layers),
            rows=rows,
            max_length=self.max_length,
            groups=decoder.groups,
            head_dim=decoder.head_dim,
            dtype=decoder.dtype,
            device=decoder.device,
            tokens=None if max_tokens is None else max_tokens // lanes,
        )

    def _lane(self, prefill_tokens: int) -> Lane:
        return Lane(self.cache_shape, vocab_size=self.vocab_size, prefill_tokens=prefill_tokens)

    def _with_cache(self, request: Request, cache: CachedTokens | None) -> Waiting:
        if cache is None or request.sample_id not in cache.lengths:
            return Waiting(request)
        kv_LNG2D = cache.of(request.sample_id)
        if kv_LNG2D.shape[1] != len(request.tokens) - 1:
            raise ValueError(
                f"sample {request.sample_id} comes with {kv_LNG2D.shape[1]} cached tokens; of its "
                f"{len(request.tokens)} tokens all but the last must be there"
            )
        self.stats.cache_bytes_in += kv_LNG2D.numel() * kv_LNG2D.element_size()
        return Waiting(request, kv_LNG2D)

    def _turn(self, lane: Lane) -> None:
        self._record(lane)
        self._give_way(lane)
        # the lanes share the samples evenly: stages with one long and one short lane would wait for each other
        seated = lane.seat(lane.take(self._waiting, most=-(-self.unfinished // len(self._lanes))))
        self.stats.prefill_tokens += seated.prefill_tokens
        self.stats.shared_tokens += seated.shared_tokens
        if not seated.parts:
            return
        logits = [self._run(part, lane) for part in seated.parts]
        if self._links.last:
            lane.drawn = self._links.give(*self._sample(lane, logits))
        else:
            lane.drawn = self._links.expect(len(lane.rows))
        if self._links.stages == 1:
            self._record(lane)

    def _record(self, lane: Lane) -> None:
        """Take in the tokens of the lane's last turn, where that is still to be done."""
        if lane.drawn is not None:
            drawn, lane.drawn = lane.drawn, None
            with _timed(self.stats, "decode_seconds"):
                self._done += lane.record(*self._links.take(drawn))

    def _give_way(self, lane: Lane) -> None:
        given_up = lane.preempt(self._ages)
        self.stats.preempted += len(given_up)
        self._waiting.extendleft(Waiting(request) for request in reversed(given_up))

    def _run(self, part: Prefill | Decode, lane: Lane) -> Tensor:
        """The logits of the part's rows, on the last stage; else of no use."""
        decodes = isinstance(part, Decode)
        with _timed(self.stats, "decode_seconds" if decodes else "prefill_seconds"):
            output = self._decoder.run(part, self._links.receive_hidden(part.tokens), cache=lane.cache)
            if not self._links.last:
                self._links.send_hidden(output)
        if isinstance(part, Decode):
            self.stats.decode_steps += 1
            self.stats.decode_tokens += part.tokens
            return output
        return output if part.prompt_R is None or not self._links.last else output[part.prompt_R]

    def _sample(self, lane: Lane, logits: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        logits_RV = logits[0] if len(logits) == 1 else torch.cat(list(logits))
        rows = lane.rows
        with _timed(self.stats, "decode_seconds"):
            return sample(logits_RV, rows.uniforms(), controls=rows.controls(), vocab_size=self.vocab_size)

    def _extract_from(self, lane: Lane, wanted: Collection[int], *, with_cache: bool) -> list[Waiting]:
        rows = [row for row, request in enumerate(lane.rows.requests) if request.sample_id in wanted]
        found = []
        for row in rows:
            request = lane.rows.snapshot(row)
            kv_LNG2D = lane.cache.pack([row], lengths=[len(request.tokens) - 1]) if with_cache else None
            found.append(Waiting(request, kv_LNG2D))
        lane.drop(rows)
        return found

    def _packed(self, found: Iterable[Waiting]) -> CachedTokens:
        parts = {w.request.sample_id: w.kv_LNG2D for w in found if w.kv_LNG2D is not None}
        lengths = {sample_id: part.shape[1] for sample_id, part in parts.items()}
        cache = CachedTokens(lengths, torch.cat([self.cache_shape.empty(0), *parts.values()], dim=1))
        self.stats.cache_bytes_out += cache.bytes
        return cache


class _timed:
    """Adds the time of its block to one field of the stats."""

    def __init__(self, stats: EngineStats, field: str) -> None:
        self._stats, self._field = stats, field

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(self, *error: object) -> None:
        elapsed = perf_counter() - self._start
        setattr(self._stats, self._field, getattr(self._stats, self._field) + elapsed)

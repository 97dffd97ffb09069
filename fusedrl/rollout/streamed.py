"""The built-in engine as an instance of a stream: samples that move with their keys and values, steps that are timed.

    extract_cached   samples out, beside them the packed keys and values of those that are worth it
    empty_cache      room to receive such a pack into
    add_cached       go on with them here, without a prefill

Each rank packs and takes its own layers and key-value groups. A sample's last token has no keys and values yet,
wherever it goes.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from time import perf_counter

from torch import Tensor

from fusedrl.rollout.cached_tokens import CachedTokens
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.step_times import StepTimes


class StreamedEngine:
    """A MegatronEngine with the methods of fusedrl.stream's `Engine` and `CacheMover`."""

    def __init__(self, engine: MegatronEngine) -> None:
        self._engine = engine
        self.max_rows = engine.max_rows
        self.times = StepTimes()

    @property
    def unfinished(self) -> int:
        return self._engine.unfinished

    @property
    def bytes_per_token(self) -> int:
        """Keys and values of one token on this rank."""
        return self._engine.cache_shape.token_bytes

    def add(self, requests: Sequence[Request]) -> None:
        self._engine.add(requests)

    def step(self) -> list[Completion]:
        """The engine's step; its time counts as a decode step, but for that of prefills."""
        before, began = replace(self._engine.stats), perf_counter()
        done = self._engine.step()
        elapsed, now = perf_counter() - began, self._engine.stats
        prefill_s = now.prefill_seconds - before.prefill_seconds
        self.times.prefilled(now.prefill_tokens - before.prefill_tokens, ms=1e3 * prefill_s)
        self.times.decoded(now.decode_tokens - before.decode_tokens, ms=1e3 * (elapsed - prefill_s))
        return done

    def extract(self, sample_ids: Collection[int]) -> list[Request]:
        return self._engine.extract(sample_ids)

    def extract_cached(
        self, sample_ids: Collection[int], *, moves: Callable[[Request], bool]
    ) -> tuple[list[Request], list[Request], Tensor]:
        """(all requests, those whose keys and values go along, these packed)."""
        requests, cache = self._engine.extract(sample_ids, with_cache=True)
        moved = [each for each in requests if each.sample_id in cache.lengths and moves(each)]
        return requests, moved, cache.only({each.sample_id for each in moved}).kv_LNG2D

    def empty_cache(self, requests: Sequence[Request]) -> Tensor:
        return self._engine.cache_shape.empty(sum(_lengths(requests).values()))

    def add_cached(self, requests: Sequence[Request], packed: Tensor) -> None:
        self._engine.add(requests, cache=CachedTokens(_lengths(requests), packed))


def _lengths(requests: Sequence[Request]) -> dict[int, int]:
    """Cached tokens of each sample, in the order in which they are packed."""
    return {each.sample_id: len(each.tokens) - 1 for each in requests}

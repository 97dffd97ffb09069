"""Seconds of prefill and of decode steps by layer, measured with the generation engine's own decoder.

A step is run with all layers and with the first alone, in turn: the difference is that of the other layers, what is
left of the short run is what a step has beside its layers (embedding, LM head, sampling).
Shapes: R rows, P prompts, T tokens.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist

from fusedrl.plan.timing import Mark, laps, medians, over_ranks
from fusedrl.rollout.cache import CacheShape, KeyValueCache
from fusedrl.rollout.decoder import CachedDecoder, Decode, Prefill
from fusedrl.rollout.sampling import Controls, SamplingParams, sample

LEAST = 1e-9  # seconds of a layer: noise must not make it none


class GenerationBench:
    """The decoder on this rank's whole model, of two layers or more."""

    def __init__(self, module: torch.nn.Module, *, max_length: int, repeats: int) -> None:
        self.decoder = CachedDecoder(module, max_length=max_length)
        self.repeats, self.max_length = repeats, max_length
        self.vocabulary: int = module.arch.vocab_size
        self._layers, self._tp = self.decoder.layers, module.pg_collection.tp
        if len(self._layers) < 2:
            raise ValueError(f"layers={len(self._layers)}: decode steps are told apart by layers; take 2 or more")

    def prefill(self, *, rows: int, length: int) -> float:
        """One layer. A collective."""
        cache, part = self._cache(rows, length), self._prompts(rows, length)
        return self._apart(lambda: self._run(part, cache))[0]

    def decode(self, *, rows: int, context: int) -> tuple[float, float]:
        """(one layer, what a step has beside its layers). A collective."""
        cache = self._cache(rows, context + 1)
        self.decoder.run(self._prompts(rows, context), None, cache=cache)
        device = self.decoder.device
        part = Decode(
            token_R=torch.zeros(rows, dtype=torch.int64, device=device),
            position_R=torch.full((rows,), context, dtype=torch.int64, device=device),
            length=context + 1,
        )
        return self._apart(lambda: self._run(part, cache))

    @torch.no_grad()
    def _apart(self, step: Callable[[], None]) -> tuple[float, float]:
        def work(mark: Mark) -> None:
            for layers in (self._layers, self._layers[:1]):
                self.decoder.layers = layers
                dist.barrier(group=self._tp)
                mark()
                step()
                mark()

        try:
            found = laps(work, device=self.decoder.device, repeats=self.repeats)
        finally:
            self.decoder.layers = self._layers
        others = len(self._layers) - 1
        layer, ends = medians([[(whole - one) / others, one - (whole - one) / others] for whole, _, one in found])
        shared = over_ranks([layer, ends])
        return max(shared[0], LEAST), max(shared[1], 0.0)

    @torch.no_grad()
    def _run(self, part: Prefill | Decode, cache: KeyValueCache) -> None:
        logits_RP = self.decoder.run(part, None, cache=cache)
        rows = len(logits_RP)
        controls = Controls.of([SamplingParams()] * rows, vocab_size=self.vocabulary, device=logits_RP.device)
        uniform_R = torch.full((rows,), 0.5, dtype=torch.float64, device=logits_RP.device)
        sample(logits_RP, uniform_R, controls=controls, vocab_size=self.vocabulary)

    def _prompts(self, rows: int, length: int) -> Prefill:
        tokens_PT = torch.randint(self.vocabulary, (rows, length), generator=torch.Generator().manual_seed(length))
        device = self.decoder.device
        return Prefill(tokens_PT.to(device), torch.full((rows,), length, device=device), first_row=0)

    def _cache(self, rows: int, length: int) -> KeyValueCache:
        shape = CacheShape(
            layers=len(self._layers),
            rows=rows,
            max_length=self.max_length,
            groups=self.decoder.groups,
            head_dim=self.decoder.head_dim,
            dtype=self.decoder.dtype,
            device=self.decoder.device,
        )
        cache = KeyValueCache(shape)
        cache.arrange(rows=rows, length=length)
        return cache

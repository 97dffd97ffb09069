"""A model in any training layout as a stream of whole Hugging Face tensors, on every rank, with bounded memory.

    describe, plan  every rank wants each parameter whole, once                  (once)
    tensors         rounds of messages; a parameter that is complete leaves under Hugging Face's names and is let go

For engines that read Hugging Face's names and take their own part of each tensor. What a rank holds at a time is one
round's messages and the parameters that the round's end cut.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fusedrl.models.architecture import Architecture
from fusedrl.models.parameter_gather import settle
from fusedrl.models.weights import from_locals, rule_for
from fusedrl.parallel.team import current, whole
from fusedrl.rollout.exchange import Exchange, Traffic
from fusedrl.rollout.handover import BUCKET_BYTES, describe, gather_shards
from fusedrl.rollout.reshard import VOCABULARY, Shard, Span, plan, rounds

TABLE, HEAD = VOCABULARY


class HfStream:
    """The stream of one model. Making it and running through `tensors` are collectives of all ranks."""

    def __init__(self, source: nn.Module, *, arch: Architecture, bucket_bytes: int = BUCKET_BYTES) -> None:
        shards = gather_shards(describe(source))
        self.source, self._arch = source, arch
        self._wanted = whole_parameters(shards, arch=arch)
        pieces = plan(shards, [self._wanted if rank in current().ranks else [] for rank in whole().ranks])
        self._rounds = rounds(pieces, bucket_bytes=bucket_bytes)
        self._pieces = Counter(piece.target_name for piece in pieces if piece.target == dist.get_rank())
        self.traffic = Traffic()

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) pairs of the source's present weights; `traffic` is this pass's. To be run through."""
        settle(self.source)
        self.traffic = Traffic()
        parameters = dict(self.source.named_parameters())
        buffers = _Buffers(self._wanted, device=next(iter(parameters.values())).device)
        exchange, missing = Exchange(parameters, buffers), self._pieces.copy()
        for pieces in self._rounds:
            self.traffic += exchange.run(pieces)
            missing.subtract(piece.target_name for piece in pieces if piece.target == dist.get_rank())
            for name in [name for name in buffers if not missing[name]]:
                yield from self._converted(name, buffers.pop(name))

    def _converted(self, name: str, whole: Tensor) -> Iterator[tuple[str, Tensor]]:
        rule = rule_for(name, arch=self._arch, layer_offset=0, head="lm")
        yield from zip(rule.sources, from_locals(rule.kind, [whole], arch=self._arch), strict=True)


class _Buffers(dict[str, Tensor]):
    """Name -> whole parameter, made when its first piece arrives."""

    def __init__(self, shards: Sequence[Shard], *, device: torch.device) -> None:
        super().__init__()
        self._shards, self._device = {shard.name: shard for shard in shards}, device

    def __missing__(self, name: str) -> Tensor:
        shard = self._shards[name]
        self[name] = torch.empty(shard.shape, dtype=getattr(torch, shard.dtype), device=self._device)
        return self[name]


def whole_parameters(shards: Sequence[Sequence[Shard]], *, arch: Architecture) -> list[Shard]:
    """Each parameter that any rank holds, whole, in the sequence of the layers; a tied head is left to the table."""
    whole: dict[str, Shard] = {}
    for shard in (shard for of_rank in shards for shard in of_rank):
        end = max(span.start + span.length for span in shard.spans)
        known = whole.get(shard.name)
        length = arch.vocab_size if shard.name in VOCABULARY else max(end, known.spans[0].length if known else 0)
        shape = (*shard.shape[: shard.dim], length, *shard.shape[shard.dim + 1 :])
        spans = (Span(start=0, offset=0, length=length),)
        whole[shard.name] = replace(shard, local_name=shard.name, shape=shape, spans=spans)
    if arch.tied:
        whole.pop(HEAD, None)
    return sorted(whole.values(), key=lambda shard: _depth(shard.name))


def _depth(name: str) -> int:
    """Embedding, layers, final norm, head."""
    if name.startswith("decoder.layers."):
        return int(name.split(".")[2])
    return -1 if name == TABLE else 1 << 30

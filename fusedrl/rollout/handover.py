"""Weights from one layout to another: training (tp, pp, dp, reversed pipeline or not) to generation, in place.

    describe  each rank says which spans of which parameter it holds         (once)
    plan      reshard.plan, the same pure function on every rank             (once)
    run       per round and peer one packed message, then copies into place  (every step)

No rank ever holds more of the model than it serves, plus one round's buffers. The reasons for not calling
`megatron.core.resharding` are in docs/rollout.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fusedrl.models.parameter_gather import settle
from fusedrl.parallel.comm import all_gather_object
from fusedrl.rollout.reshard import Piece, Shard, Span, plan, rounds

BUCKET_BYTES = 256 << 20


@dataclass(frozen=True)
class HandOverReport:
    """What one hand-over did on this rank."""

    bytes_sent: int
    bytes_received: int
    bytes_copied: int  # from this rank to itself
    messages: int
    seconds: float


class HandOver:
    """The hand-over of one pair of models. Making it and `run` are collectives of all ranks of the default group.

    `source` or `target` is None on a rank that holds no part of it.
    """

    def __init__(self, source: nn.Module | None, target: nn.Module | None, *, bucket_bytes: int = BUCKET_BYTES) -> None:
        self._source = {} if source is None else dict(source.named_parameters())
        self._target = {} if target is None else dict(target.named_parameters())
        pieces = plan(_gather(describe(source)), _gather(describe(target)))
        self._rank = dist.get_rank()
        self._rounds = rounds(pieces, bucket_bytes=bucket_bytes)

    @torch.no_grad()
    def run(self) -> HandOverReport:
        """Copy the source's present parameters into the target's; none may be under way (models.parameter_gather)."""
        start = perf_counter()
        sent = received = copied = messages = 0
        for pieces in self._rounds:
            outgoing, incoming, local = self._mine(pieces)
            buffers = {peer: self._pack(group) for peer, group in outgoing.items()}
            arrivals = {peer: self._empty(group) for peer, group in incoming.items()}
            requests = _post(buffers, arrivals)
            for piece in local:
                self._target_view(piece).copy_(self._source_view(piece))
            for request in requests:
                request.wait()
            for peer, group in incoming.items():
                self._unpack(arrivals[peer], group)
            sent += sum(p.bytes for group in outgoing.values() for p in group)
            received += sum(p.bytes for group in incoming.values() for p in group)
            copied += sum(p.bytes for p in local)
            messages += len(buffers) + len(arrivals)
        return HandOverReport(sent, received, copied, messages, perf_counter() - start)

    def _mine(self, pieces: Iterable[Piece]) -> tuple[dict[int, list[Piece]], dict[int, list[Piece]], list[Piece]]:
        """(pieces by receiving peer, pieces by sending peer, pieces that stay here) of one round."""
        outgoing: dict[int, list[Piece]] = {}
        incoming: dict[int, list[Piece]] = {}
        local: list[Piece] = []
        for piece in pieces:
            if piece.source == piece.target == self._rank:
                local.append(piece)
            elif piece.source == self._rank:
                outgoing.setdefault(piece.target, []).append(piece)
            elif piece.target == self._rank:
                incoming.setdefault(piece.source, []).append(piece)
        return outgoing, incoming, local

    def _source_view(self, piece: Piece) -> Tensor:
        return self._source[piece.source_name].narrow(piece.dim, piece.source_offset, piece.length)

    def _target_view(self, piece: Piece) -> Tensor:
        return self._target[piece.target_name].narrow(piece.dim, piece.target_offset, piece.length)

    def _pack(self, pieces: list[Piece]) -> Tensor:
        """One flat byte buffer: dtypes may differ between the pieces."""
        parts = [self._source_view(p).to(getattr(torch, p.dtype)).reshape(-1).view(torch.uint8) for p in pieces]
        return torch.cat(parts)

    def _empty(self, pieces: list[Piece]) -> Tensor:
        device = self._target[pieces[0].target_name].device
        return torch.empty(sum(p.bytes for p in pieces), dtype=torch.uint8, device=device)

    def _unpack(self, buffer: Tensor, pieces: list[Piece]) -> None:
        start = 0
        for piece in pieces:
            view = self._target_view(piece)
            # a copy of the bytes where the offset is not a multiple of the element: views need alignment
            part = buffer[start : start + piece.bytes]
            aligned = part if part.storage_offset() % view.element_size() == 0 else part.clone()
            view.copy_(aligned.view(view.dtype).view(view.shape))
            start += piece.bytes


_cache: "WeakKeyDictionary[nn.Module, WeakKeyDictionary[nn.Module, HandOver]]" = WeakKeyDictionary()


def hand_over(source: nn.Module, target: nn.Module) -> HandOverReport:
    """Copy `source`'s weights into `target`, by a plan kept for this pair; a collective of all ranks."""
    settle(source)
    plans = _cache.setdefault(target, WeakKeyDictionary())
    if source not in plans:
        plans[source] = HandOver(source, target)
    return plans[source].run()


def describe(model: nn.Module | None) -> list[Shard]:
    """The shards that this rank holds of a Megatron model: of its one stage, or of all in a ModuleList."""
    if model is None:
        return []
    stages = list(model.named_children()) if isinstance(model, nn.ModuleList) else [("", model)]
    return [
        _shard(name, parameter, model=stage, tp=stage.pg_collection.tp, prefix=f"{number}." if number else "")
        for number, stage in stages
        for name, parameter in stage.named_parameters()
    ]


def _shard(name: str, parameter: nn.Parameter, *, model: Any, tp: Any, prefix: str) -> Shard:
    # the mark is there with tp 1 too: both layouts must name the same dimension
    sharded = bool(getattr(parameter, "tensor_model_parallel", False))
    dim = int(parameter.partition_dim) if sharded else 0
    blocks = 2 if sharded and model.config.gated_linear_unit and ".linear_fc1." in name else 1
    return Shard(
        name=_whole_model_name(name, model),
        local_name=prefix + name,
        shape=tuple(parameter.shape),
        dim=dim,
        spans=_spans(
            parameter.shape[dim],
            blocks=blocks,
            tp_size=tp.size() if sharded else 1,
            tp_rank=tp.rank() if sharded else 0,
        ),
        dtype=str(parameter.dtype).removeprefix("torch."),
    )


def _spans(length: int, *, blocks: int, tp_size: int, tp_rank: int) -> tuple[Span, ...]:
    """A gated fc1 is `blocks` = 2 stacked matrices, each cut by itself: a part of the gate, then a part of the up."""
    part = length // blocks
    return tuple(
        Span(start=part * (block * tp_size + tp_rank), offset=part * block, length=part) for block in range(blocks)
    )


def _whole_model_name(name: str, model: Any) -> str:
    """Layers are named by their place in the whole model, whichever stage holds them."""
    prefix = "decoder.layers."
    if not name.startswith(prefix):
        return name
    index, _, rest = name.removeprefix(prefix).partition(".")
    return f"{prefix}{model.decoder.layers[int(index)].layer_number - 1}.{rest}"


def _gather(shards: list[Shard]) -> list[list[Shard]]:
    gathered = all_gather_object([asdict(shard) for shard in shards])
    return [[_from_plain(plain) for plain in of_rank] for of_rank in gathered]


def _from_plain(plain: Mapping[str, Any]) -> Shard:
    spans = tuple(Span(**span) for span in plain["spans"])
    return Shard(**{**plain, "shape": tuple(plain["shape"]), "spans": spans})


def _post(buffers: Mapping[int, Tensor], arrivals: Mapping[int, Tensor]) -> list[Any]:
    """Start all messages of a round at once: no order among them can block."""
    operations = [dist.P2POp(dist.irecv, buffer, peer) for peer, buffer in sorted(arrivals.items())]
    operations += [dist.P2POp(dist.isend, buffer, peer) for peer, buffer in sorted(buffers.items())]
    return dist.batch_isend_irecv(operations) if operations else []

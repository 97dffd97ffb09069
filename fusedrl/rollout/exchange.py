"""One round of a hand-over: pieces of parameters go out in one packed message per pair of ranks, or are copied here.

source  parameter's name -> tensor that pieces are read from
target  parameter's name -> tensor that pieces are written into; may make it on first sight
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.parallel.team import current
from fusedrl.rollout.reshard import Piece


@dataclass(frozen=True)
class Traffic:
    """Bytes and messages of this rank."""

    bytes_sent: int = 0
    bytes_received: int = 0
    bytes_copied: int = 0  # from this rank to itself
    messages: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.bytes_sent + other.bytes_sent,
            self.bytes_received + other.bytes_received,
            self.bytes_copied + other.bytes_copied,
            self.messages + other.messages,
        )


class Exchange:
    """Moves pieces between named tensors of the ranks of a team, the one that is current when this is made; all of them
    call `run` alike."""

    def __init__(self, source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
        self._source, self._target, self._rank = source, target, dist.get_rank()
        self._group = current().group

    @torch.no_grad()
    def run(self, pieces: Iterable[Piece]) -> Traffic:
        """Move the pieces of one round; on return this rank's part has arrived."""
        outgoing, incoming, local = self._mine(pieces)
        buffers = {peer: self._pack(group) for peer, group in outgoing.items()}
        arrivals = {peer: self._empty(group) for peer, group in incoming.items()}
        requests = _post(buffers, arrivals, group=self._group)
        for piece in local:
            self._target_view(piece).copy_(self._source_view(piece))
        for request in requests:
            request.wait()
        for peer, group in incoming.items():
            self._unpack(arrivals[peer], group)
        return Traffic(
            bytes_sent=sum(p.bytes for group in outgoing.values() for p in group),
            bytes_received=sum(p.bytes for group in incoming.values() for p in group),
            bytes_copied=sum(p.bytes for p in local),
            messages=len(buffers) + len(arrivals),
        )

    def _mine(self, pieces: Iterable[Piece]) -> tuple[dict[int, list[Piece]], dict[int, list[Piece]], list[Piece]]:
        """(pieces by receiving peer, pieces by sending peer, pieces that stay here)."""
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


def _post(
    buffers: Mapping[int, Tensor], arrivals: Mapping[int, Tensor], *, group: dist.ProcessGroup | None
) -> list[Any]:
    """Start all messages of a round at once: no order among them can block."""
    operations = [dist.P2POp(dist.irecv, buffer, peer, group) for peer, buffer in sorted(arrivals.items())]
    operations += [dist.P2POp(dist.isend, buffer, peer, group) for peer, buffer in sorted(buffers.items())]
    return dist.batch_isend_irecv(operations) if operations else []

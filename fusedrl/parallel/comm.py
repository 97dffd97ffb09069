"""Small collectives on bytes and on plain objects, without pickle.

torch's `*_object` collectives unpickle what arrives; these carry msgpack (None, bool, int, float, str, bytes, list,
dict) and so can run nothing. Lengths travel first, then one padded byte tensor. Without a group they are collectives
of the current team (fusedrl.parallel.team), and the source is its first rank.
"""

from typing import Any

import msgpack
import torch
import torch.distributed as dist

from fusedrl.parallel.team import current


def all_gather_bytes(payload: bytes, *, group: dist.ProcessGroup | None = None) -> list[bytes]:
    """Every member's bytes, by rank in the group."""
    group = group or current().group
    lengths = _gather_lengths(len(payload), group)
    width = max(lengths)
    if width == 0:
        return [b""] * len(lengths)
    mine = torch.zeros(width, dtype=torch.uint8)
    mine[: len(payload)] = _to_tensor(payload)
    mine = mine.to(_device(group))
    parts = [torch.empty_like(mine) for _ in lengths]
    dist.all_gather(parts, mine, group=group)
    return [_to_bytes(part[:length]) for part, length in zip(parts, lengths, strict=True)]


def broadcast_bytes(payload: bytes | None, *, src: int | None = None, group: dist.ProcessGroup | None = None) -> bytes:
    """The bytes of global rank `src`; the others pass None."""
    src, group = current().first if src is None else src, group or current().group
    sends = dist.get_rank() == src
    assert sends == (payload is not None), f"exactly rank {src} gives the payload"
    length = torch.tensor([len(payload or b"")], dtype=torch.int64, device=_device(group))
    dist.broadcast(length, src=src, group=group)
    data = torch.empty(int(length), dtype=torch.uint8) if payload is None else _to_tensor(payload)
    data = data.to(_device(group))
    if int(length):
        dist.broadcast(data, src=src, group=group)
    return _to_bytes(data)


def all_gather_object(value: Any, *, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Every member's value (msgpack's types; tuples come back as lists)."""
    return [unpack(part) for part in all_gather_bytes(pack(value), group=group)]


def broadcast_object(value: Any, *, src: int | None = None, group: dist.ProcessGroup | None = None) -> Any:
    """The value of global rank `src` on every member; what the others pass is ignored."""
    src = current().first if src is None else src
    return unpack(broadcast_bytes(pack(value) if dist.get_rank() == src else None, src=src, group=group))


def pack(value: Any) -> bytes:
    return msgpack.packb(value, use_bin_type=True)


def unpack(payload: bytes) -> Any:
    return msgpack.unpackb(payload, raw=False, strict_map_key=False)


def _gather_lengths(length: int, group: dist.ProcessGroup | None) -> list[int]:
    mine = torch.tensor([length], dtype=torch.int64, device=_device(group))
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, mine, group=group)
    return [int(part) for part in parts]


def _to_tensor(payload: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(payload), dtype=torch.uint8) if payload else torch.empty(0, dtype=torch.uint8)


def _to_bytes(data: torch.Tensor) -> bytes:
    return data.cpu().numpy().tobytes()


def _device(group: dist.ProcessGroup | None) -> torch.device:
    return (
        torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else torch.device("cpu")
    )

"""Flat tensors in a safetensors file, written in one pass with its SHA-256, read in parts. Nothing is pickled.

    length of the header, 8 bytes little endian | header, JSON: name -> dtype, shape, byte range | the bytes

The format's own library writes without telling a checksum; reading uses it.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_NAMES = {torch.float32: "F32", torch.uint8: "U8"}
_CHUNK = 16 << 20
METADATA = "__metadata__"


@dataclass(frozen=True)
class Written:
    """What a whole file looks like."""

    bytes: int
    sha256: str


def write_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str]) -> Written:
    """Write flat CPU tensors (fp32, or bytes) and flush them to the disk. Raises OSError naming the file."""
    header, digest, count = _header(tensors, metadata), hashlib.sha256(), 0
    try:
        with path.open("wb") as file:
            for data in (len(header).to_bytes(8, "little"), header, *map(_bytes, tensors.values())):
                view = memoryview(data)
                for first in range(0, len(view), _CHUNK):
                    part = view[first : first + _CHUNK]
                    digest.update(part)
                    file.write(part)
                count += len(view)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, f"{path}: {error.strerror or error}") from error
    return Written(count, digest.hexdigest())


def look_at(path: Path) -> Written:
    """Size and checksum of a file as it lies there."""
    digest, count = hashlib.sha256(), 0
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            count += len(data)
    return Written(count, digest.hexdigest())


def read_metadata(path: Path) -> dict[str, str]:
    """The header's own entries; the tensors are not read."""
    with path.open("rb") as file:
        header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return dict(header.get(METADATA, {}))


def read_part(path: Path, name: str, *, start: int = 0, stop: int | None = None) -> Tensor:
    """Entries of a flat tensor; only these are read from the disk."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as opened:
        part: Tensor = opened.get_slice(name)[start:stop]
    return part


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, Any] = {METADATA: dict(metadata)}
    offset = 0
    for name, tensor in tensors.items():
        assert tensor.dim() == 1, (name, tensor.shape)
        size = tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": [tensor.numel()],
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(entries).encode()
    return text + b" " * (-len(text) % 8)


def _bytes(tensor: Tensor) -> Any:
    return tensor.contiguous().numpy().data.cast("B") if tensor.numel() else b""

"""Which parts of which files make up a parameter of another layout: saved shards cut as each rank held them.

    fragment   entries start..stop of a flattened shard, in one file     (a distributed optimizer's rank keeps a range)
    shard      a rank's local parameter and its spans in the whole one   (fusedrl.rollout.reshard: tp, gated fc1)
    whole      never put together: a target shard is covered by the spans that it meets, read from the fragments

A rank reads the entries that it needs and no others, except that along a second dimension (columns over tp) a saved
shard is read whole.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fusedrl.checkpoint.tensor_file import read_metadata, read_part
from fusedrl.models.weights import FUSED_NORMS
from fusedrl.rollout.reshard import VOCABULARY, Piece, Shard, Span, plan

FRAGMENTS = "fragments"  # a file's entry of its header

Read = Callable[[str, str, int, int], Tensor]
"""(file, tensor, start, stop) -> entries of a flat tensor of that file."""


@dataclass(frozen=True)
class Fragment:
    """Entries `start` to `stop` of a flattened shard, one tensor a kind (value, moments) in `file`."""

    file: str
    shard: Shard
    start: int
    stop: int
    kinds: tuple[str, ...]


def tensor_name(model: str, kind: str, name: str) -> str:
    """A fragment's tensor in its file."""
    return f"{model}/{kind}/{name}"


def layout_independent(shard: Shard) -> Shard:
    """Named as local layers name it: Transformer Engine's fused norms have other names for the same weight."""
    head, separator, inner = shard.name.partition("decoder.layers.")
    index, _, rest = inner.partition(".")
    return replace(shard, name=f"{head}{separator}{index}.{FUSED_NORMS[rest]}") if rest in FUSED_NORMS else shard


def to_plain(fragments: Iterable[Fragment]) -> list[dict[str, Any]]:
    """For a file's header; the file's own name is left out."""
    return [
        {
            "name": each.shard.name,
            "shape": list(each.shard.shape),
            "dim": each.shard.dim,
            "spans": [[span.start, span.offset, span.length] for span in each.shard.spans],
            "range": [each.start, each.stop],
            "kinds": list(each.kinds),
        }
        for each in fragments
    ]


def from_plain(plain: Iterable[Mapping[str, Any]], *, file: str) -> Iterator[Fragment]:
    for each in plain:
        spans, shape = tuple(Span(*span) for span in each["spans"]), tuple(each["shape"])
        shard = Shard(each["name"], "", shape, each["dim"], spans, "float32")
        start, stop = each["range"]
        yield Fragment(file, shard, start, stop, tuple(each["kinds"]))


def open_models(folder: Path, files: Sequence[str], names: Iterable[str]) -> "dict[str, SavedModel]":
    """The models of a saved state; headers are read now, tensors when they are asked for."""
    plain = {file: json.loads(read_metadata(folder / file)[FRAGMENTS]) for file in files}

    def read(file: str, name: str, start: int, stop: int) -> Tensor:
        return read_part(folder / file, name, start=start, stop=stop)

    def fragments(name: str) -> Iterator[Fragment]:
        for file in files:
            yield from from_plain(plain[file].get(name, ()), file=file)

    return {name: SavedModel(name, fragments(name), read=read) for name in names}


class SavedModel:
    """The fragments of one model in all files, and reads of any part of it."""

    def __init__(self, model: str, fragments: Iterable[Fragment], *, read: Read) -> None:
        self._model, self._read = model, read
        self._shards: dict[str, dict[Shard, list[Fragment]]] = {}
        for each in fragments:
            self._shards.setdefault(each.shard.name, {}).setdefault(each.shard, []).append(each)

    def entries(self, target: Shard, *, kind: str, start: int = 0, stop: int | None = None) -> Tensor:
        """Entries `start` to `stop` of a flattened shard of any layout. Rows that pad a vocabulary come as zeros.

        Raises ValueError where the checkpoint lacks a part.
        """
        target = layout_independent(target)
        stop = prod(target.shape) if stop is None else stop
        held = self._held(target.name)
        for shard in held:
            if (shard.shape, shard.dim, shard.spans) == (target.shape, target.dim, target.spans):
                return self._flat(shard, held[shard], kind=kind, start=start, stop=stop)
        sources = list(held)
        whole = torch.zeros(target.shape)
        for piece in plan([[source] for source in sources], [[target]]):
            source = sources[piece.source]
            self._copy(piece, source, held[source], into=whole, kind=kind, start=start, stop=stop)
        return whole.view(-1)[start:stop]

    def _held(self, name: str) -> Mapping[Shard, Sequence[Fragment]]:
        found = self._shards.get(name) or (self._shards.get(VOCABULARY[0]) if name == VOCABULARY[1] else None)
        if not found:
            raise ValueError(f"the checkpoint has no parameter {name} of {self._model}")
        return found

    def _copy(
        self,
        piece: Piece,
        source: Shard,
        fragments: Sequence[Fragment],
        *,
        into: Tensor,
        kind: str,
        start: int,
        stop: int,
    ) -> None:
        """One range of the sharded dimension, from file to target; along a first dimension only what is asked for."""
        dim, first, last = piece.dim, piece.target_offset, piece.target_offset + piece.length
        outer, inner = prod(source.shape[:dim]), prod(source.shape[dim + 1 :])
        if outer == 1:
            first, last = max(first, start // inner), min(last, -(-stop // inner))
            if first >= last:
                return
        moved = piece.source_offset - piece.target_offset
        length = source.shape[dim]
        if outer == 1:
            rows = self._flat(source, fragments, kind=kind, start=(first + moved) * inner, stop=(last + moved) * inner)
            into.view(-1, inner)[first:last] = rows.view(-1, inner)
            return
        all_of_it = self._flat(source, fragments, kind=kind, start=0, stop=outer * length * inner)
        part = all_of_it.view(outer, length, inner)[:, first + moved : last + moved]
        into.view(outer, -1, inner)[:, first:last] = part

    def _flat(self, shard: Shard, fragments: Sequence[Fragment], *, kind: str, start: int, stop: int) -> Tensor:
        """Entries of a saved shard, from the fragments that have them."""
        found = torch.empty(stop - start)
        reached = start
        for each in sorted(fragments, key=lambda each: each.start):
            low, high = max(reached, each.start), min(stop, each.stop)
            if low == reached and low < high and kind in each.kinds:
                name = tensor_name(self._model, kind, shard.name)
                found[low - start : high - start] = self._read(each.file, name, low - each.start, high - each.start)
                reached = high
        if reached < stop:
            raise ValueError(
                f"the checkpoint lacks entries {reached} to {stop} of {kind} of {self._model}'s {shard.name}"
            )
        return found

"""Which piece of which parameter goes from which rank to which: a pure function of both layouts, equal on all ranks.

Every rank describes its shards (`Shard`): the parameter's name in the whole model and the spans of its sharded
dimension that lie here. A target span is covered by the source spans it meets; of several ranks that hold one
(data-parallel copies), the target itself is taken where it can be, else the one that has sent least so far.

    rank 0, tp 2, gated fc1 (gate rows 0..7, up rows 8..15):  spans (0 -> 0, 4), (8 -> 4, 4)   (start -> offset, length)

A padded vocabulary differs in length between tensor-parallel sizes: rows that only the target has are left as they are;
no logit of theirs is ever used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

VOCABULARY = ("embedding.word_embeddings.weight", "output_layer.weight")
_ELEMENT_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Span:
    """`length` entries of the sharded dimension: from `start` in the whole parameter, from `offset` in the shard."""

    start: int
    offset: int
    length: int


@dataclass(frozen=True)
class Shard:
    """What one rank holds of one parameter. A replicated parameter is one span of its first dimension."""

    name: str  # in the whole model, layers counted over all stages
    local_name: str
    shape: tuple[int, ...]
    dim: int
    spans: tuple[Span, ...]
    dtype: str


@dataclass(frozen=True)
class Piece:
    """One contiguous range of `dim` that moves from a source's shard into a target's, as the target's dtype."""

    source: int
    target: int
    source_name: str
    target_name: str
    dim: int
    source_offset: int
    target_offset: int
    length: int
    elements: int
    dtype: str

    @property
    def bytes(self) -> int:
        return self.elements * _ELEMENT_BYTES[self.dtype]


def plan(sources: Sequence[Sequence[Shard]], targets: Sequence[Sequence[Shard]]) -> tuple[Piece, ...]:
    """All pieces, in an order that every rank derives alike. `sources` and `targets`: the shards of each rank."""
    holders = _holders(sources)
    sent = dict.fromkeys(range(len(sources)), 0)
    pieces: list[Piece] = []
    for target, shards in enumerate(targets):
        for shard in shards:
            found = holders.get(shard.name) or (holders.get(VOCABULARY[0]) if shard.name == VOCABULARY[1] else None)
            if not found:
                raise ValueError(f"hand-over: parameter {shard.name} of rank {target} exists on no source rank")
            for piece in _cover(shard, found, target=target, sent=sent):
                sent[piece.source] += piece.bytes * (piece.source != target)
                pieces.append(piece)
    return tuple(pieces)


def rounds(pieces: Sequence[Piece], *, bucket_bytes: int) -> tuple[tuple[Piece, ...], ...]:
    """The pieces in rounds, such that a target takes about `bucket_bytes` in each: bounds the packing memory."""
    taken: dict[int, int] = {}
    cut: dict[int, list[Piece]] = {}
    for piece in pieces:
        before = taken.get(piece.target, 0)
        taken[piece.target] = before + piece.bytes
        cut.setdefault(before // bucket_bytes, []).append(piece)
    return tuple(tuple(cut[index]) for index in sorted(cut))


Holder = tuple[int, Shard, Span]


def _holders(sources: Sequence[Sequence[Shard]]) -> Mapping[str, Mapping[tuple[int, int], list[Holder]]]:
    """Parameter name -> (start, length) of a span -> who holds it."""
    holders: dict[str, dict[tuple[int, int], list[Holder]]] = {}
    for rank, shards in enumerate(sources):
        for shard in shards:
            by_span = holders.setdefault(shard.name, {})
            for span in shard.spans:
                by_span.setdefault((span.start, span.length), []).append((rank, shard, span))
    return {name: dict(sorted(by_span.items())) for name, by_span in holders.items()}


def _cover(
    shard: Shard, holders: Mapping[tuple[int, int], list[Holder]], *, target: int, sent: Mapping[int, int]
) -> Iterator[Piece]:
    for span in shard.spans:
        position, end = span.start, span.start + span.length
        for (start, length), candidates in holders.items():
            low, high = max(position, start), min(end, start + length)
            if low >= high:
                continue
            if low > position:
                break
            rank, source, held = min(candidates, key=lambda c: (c[0] != target, sent[c[0]], c[0]))
            _check_shapes(shard, source, target=target, rank=rank)
            yield _piece(shard, source, span=span, held=held, low=low, high=high, ranks=(rank, target))
            position = high
        if position < end and shard.name not in VOCABULARY:
            raise ValueError(
                f"hand-over: entries {position} to {end} of dimension {shard.dim} of {shard.name}, needed by rank "
                f"{target}, exist on no source rank: the two models differ in size"
            )


def _piece(
    shard: Shard, source: Shard, *, span: Span, held: Span, low: int, high: int, ranks: tuple[int, int]
) -> Piece:
    others = 1
    for dim, size in enumerate(shard.shape):
        others *= size if dim != shard.dim else 1
    return Piece(
        source=ranks[0],
        target=ranks[1],
        source_name=source.local_name,
        target_name=shard.local_name,
        dim=shard.dim,
        source_offset=held.offset + low - held.start,
        target_offset=span.offset + low - span.start,
        length=high - low,
        elements=others * (high - low),
        dtype=shard.dtype,
    )


def _check_shapes(shard: Shard, source: Shard, *, target: int, rank: int) -> None:
    def others(s: Shard) -> tuple[int, ...]:
        return s.shape[: shard.dim] + s.shape[shard.dim + 1 :]

    if shard.dim != source.dim or len(shard.shape) != len(source.shape) or others(shard) != others(source):
        raise ValueError(
            f"hand-over: {shard.name} has shape {shard.shape} on rank {target} and {source.shape} on rank {rank}; "
            f"they may differ along one sharded dimension only (here {shard.dim}, there {source.dim})"
        )

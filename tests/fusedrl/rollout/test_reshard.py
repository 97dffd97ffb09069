"""A plan, carried out on plain arrays, rebuilds every target shard from the source shards."""

from dataclasses import replace

import numpy as np
import pytest

from fusedrl.rollout.reshard import Shard, Span, plan, rounds

FULL = {
    "qkv": np.arange(24 * 3).reshape(24, 3),
    "proj": np.arange(3 * 24).reshape(3, 24) + 1000,
    "fc1": np.arange(16 * 2).reshape(16, 2) + 2000,
    "norm": np.arange(5) + 3000,
}
DIMS = {"qkv": 0, "proj": 1, "fc1": 0, "norm": None}
BLOCKS = {"fc1": 2}


def shard_of(name: str, *, tp: int, rank: int, dtype: str = "float32") -> Shard:
    full, dim = FULL[name], DIMS[name]
    if dim is None:
        return Shard(name, f"local.{name}", full.shape, 0, (Span(0, 0, len(full)),), dtype)
    blocks = BLOCKS.get(name, 1)
    part = full.shape[dim] // tp // blocks
    spans = tuple(Span(part * (b * tp + rank), part * b, part) for b in range(blocks))
    shape = tuple(size // tp if d == dim else size for d, size in enumerate(full.shape))
    return Shard(name, f"local.{name}", shape, dim, spans, dtype)


def value_of(shard: Shard) -> np.ndarray:
    parts = [np.take(FULL[shard.name], range(s.start, s.start + s.length), axis=shard.dim) for s in shard.spans]
    return np.concatenate(parts, axis=shard.dim)


def layout(*, tp: int, dp: int, pp: int = 1) -> list[list[Shard]]:
    """Parameters dealt over pp stages; rank = tp + tp_size * (dp + dp_size * pp)."""
    names = list(FULL)
    stages = [names[i * len(names) // pp : (i + 1) * len(names) // pp] for i in range(pp)]
    return [[shard_of(n, tp=tp, rank=t) for n in stages[s]] for s in range(pp) for _ in range(dp) for t in range(tp)]


def carry_out(sources: list[list[Shard]], targets: list[list[Shard]]) -> list[dict[str, np.ndarray]]:
    held = [{s.local_name: value_of(s) for s in shards} for shards in sources]
    made = [{s.local_name: np.full(s.shape, -1) for s in shards} for shards in targets]
    for p in plan(sources, targets):
        into = [slice(None)] * made[p.target][p.target_name].ndim
        out = list(into)
        into[p.dim] = slice(p.target_offset, p.target_offset + p.length)
        out[p.dim] = slice(p.source_offset, p.source_offset + p.length)
        part = held[p.source][p.source_name][tuple(out)]
        assert part.size == p.elements
        made[p.target][p.target_name][tuple(into)] = part
    return made


LAYOUTS = [
    {"tp": 1, "dp": 4},
    {"tp": 2, "dp": 2},
    {"tp": 4, "dp": 1},
    {"tp": 1, "dp": 2, "pp": 2},
    {"tp": 2, "dp": 1, "pp": 2},
    {"tp": 1, "dp": 1, "pp": 4},
]


@pytest.mark.parametrize("source", LAYOUTS, ids=str)
@pytest.mark.parametrize("target", LAYOUTS, ids=str)
def test_targets_equal_slices_of_the_whole(source, target):
    targets = layout(**target)
    for shards, made in zip(targets, carry_out(layout(**source), targets), strict=True):
        for shard in shards:
            assert np.array_equal(made[shard.local_name], value_of(shard))


def test_nothing_is_sent_where_the_layouts_agree():
    assert all(p.source == p.target for p in plan(layout(tp=2, dp=2), layout(tp=2, dp=2)))


def test_copies_share_the_sending():
    sent = [0] * 8
    sources = layout(tp=1, dp=4) + [[] for _ in range(4)]
    targets = [[] for _ in range(4)] + layout(tp=1, dp=4)
    for p in plan(sources, targets):
        sent[p.source] += p.bytes
    whole = sum(v.size * 4 for v in FULL.values())
    assert sum(sent) == 4 * whole
    assert max(sent) < 1.5 * whole


def test_rounds_are_bounded_and_lose_nothing():
    pieces = plan(layout(tp=4, dp=1), layout(tp=1, dp=4))
    cut = rounds(pieces, bucket_bytes=200)
    assert sorted(map(repr, (p for r in cut for p in r))) == sorted(map(repr, pieces))
    largest = max(p.bytes for p in pieces)
    for r in cut:
        for target in range(4):
            assert sum(p.bytes for p in r if p.target == target) < 200 + largest


def vocabulary(*, rows: int, name: str = "embedding.word_embeddings.weight") -> Shard:
    return Shard(name, name, (rows, 2), 0, (Span(0, 0, rows),), "float32")


def test_vocabulary_padding_may_differ():
    (piece,) = plan([[vocabulary(rows=256)]], [[vocabulary(rows=384)]])
    assert piece.length == 256
    (piece,) = plan([[vocabulary(rows=384)]], [[vocabulary(rows=256)]])
    assert piece.length == 256


def test_tied_head_comes_from_the_embedding():
    (piece,) = plan([[vocabulary(rows=256)]], [[vocabulary(rows=256, name="output_layer.weight")]])
    assert piece.source_name == "embedding.word_embeddings.weight"


def test_models_of_different_size_are_refused():
    small = Shard("norm", "norm", (4,), 0, (Span(0, 0, 4),), "float32")
    with pytest.raises(ValueError, match=r"entries 4 to 5 .* of norm, needed by rank 0"):
        plan([[small]], [[shard_of("norm", tp=1, rank=0)]])
    with pytest.raises(ValueError, match="norm of rank 0 exists on no source rank"):
        plan([[]], [[small]])
    wide = Shard("qkv", "qkv", (24, 4), 0, (Span(0, 0, 24),), "float32")
    with pytest.raises(ValueError, match=r"qkv has shape \(24, 4\) on rank 0 and \(24, 3\)"):
        plan([[shard_of("qkv", tp=1, rank=0)]], [[wide]])
    with pytest.raises(ValueError, match=r"one sharded dimension only \(here 1, there 0\)"):
        plan([[replace(shard_of("proj", tp=1, rank=0), dim=0)]], [[shard_of("proj", tp=1, rank=0)]])


def test_pieces_travel_in_the_targets_dtype():
    (piece,) = plan([[shard_of("norm", tp=1, rank=0)]], [[shard_of("norm", tp=1, rank=0, dtype="bfloat16")]])
    assert piece.dtype == "bfloat16"
    assert piece.bytes == 10

"""A parameter saved in any layout is read in any other, entry for entry, and no more of it than is needed.

The layouts are cut here by hand from whole tensors: rows, columns, a gated pair of matrices, replicated, padded.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import prod

import pytest
import torch
from torch import Tensor

from fusedrl.checkpoint.pieces import (
    Fragment,
    SavedModel,
    from_plain,
    layout_independent,
    tensor_name,
    to_plain,
)
from fusedrl.rollout.reshard import VOCABULARY, Shard, Span

LAYER = "decoder.layers.3."
# name -> (shape of the whole, sharded dimension or None, blocks along it)
PARAMETERS: dict[str, tuple[tuple[int, ...], int | None, int]] = {
    LAYER + "self_attention.linear_qkv.weight": ((24, 6), 0, 1),
    LAYER + "self_attention.linear_qkv.bias": ((24,), 0, 1),
    LAYER + "mlp.linear_fc1.weight": ((16, 6), 0, 2),
    LAYER + "mlp.linear_fc2.weight": ((6, 8), 1, 1),
    LAYER + "input_layernorm.weight": ((6,), None, 1),
}


def whole(name: str) -> Tensor:
    shape, _, _ = PARAMETERS[name]
    return torch.arange(prod(shape), dtype=torch.float32).view(shape) + 1


def shard(name: str, *, tp: int, rank: int) -> tuple[Shard, Tensor]:
    """A tensor-parallel rank's shard and what it holds."""
    (shape, dim, blocks), tensor = PARAMETERS[name], whole(name)
    if dim is None:
        return Shard(name, "", shape, 0, (Span(0, 0, shape[0]),), "float32"), tensor
    part = shape[dim] // blocks // tp
    spans = tuple(Span(part * (block * tp + rank), part * block, part) for block in range(blocks))
    held = torch.cat([tensor.narrow(dim, span.start, span.length) for span in spans], dim=dim)
    return Shard(name, "", tuple(held.shape), dim, spans, "float32"), held


def ranges(size: int, dp: int) -> Iterator[tuple[int, int]]:
    """A distributed optimizer's cuts: uneven, in the midst of rows."""
    bounds = [min(size, (size * i) // dp + (i % 2)) for i in range(dp)] + [size]
    yield from (pair for pair in pairwise(bounds) if pair[0] < pair[1])


class Files:
    """What was saved with tp x dp ranks, and how many entries were read of it."""

    def __init__(self, *, tp: int, dp: int) -> None:
        self.tensors: dict[tuple[str, str], Tensor] = {}
        self.fragments: list[Fragment] = []
        self.read_entries = 0
        for name, (_, dim, _) in PARAMETERS.items():
            for rank in range(1 if dim is None else tp):
                held_by, held = shard(name, tp=tp, rank=rank)
                for place, (start, stop) in enumerate(ranges(held.numel(), dp)):
                    file = f"{rank}.{place}"
                    self.fragments.append(Fragment(file, held_by, start, stop, ("param",)))
                    self.tensors[file, tensor_name("actor", "param", name)] = held.reshape(-1)[start:stop]

    def model(self) -> SavedModel:
        plain = [(each.file, to_plain([each])) for each in self.fragments]
        return SavedModel("actor", [each for file, p in plain for each in from_plain(p, file=file)], read=self._read)

    def _read(self, file: str, name: str, start: int, stop: int) -> Tensor:
        assert start < stop
        self.read_entries += stop - start
        return self.tensors[file, name][start:stop]


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("before", [(1, 1), (2, 1), (1, 3), (2, 2), (4, 1)])
@pytest.mark.parametrize("after", [(1, 1), (2, 1), (4, 2), (1, 3)])
def test_any_layout_is_read_in_any_other(name: str, before: tuple[int, int], after: tuple[int, int]) -> None:
    files = Files(tp=before[0], dp=before[1])
    model, (tp, dp) = files.model(), after
    for rank in range(tp):
        target, wanted = shard(name, tp=tp, rank=rank)
        assert torch.equal(model.entries(target, kind="param"), wanted.reshape(-1))
        for start, stop in ranges(wanted.numel(), dp):
            files.read_entries = 0
            found = model.entries(target, kind="param", start=start, stop=stop)
            assert torch.equal(found, wanted.reshape(-1)[start:stop])
            inner = 1 if wanted.dim() == 1 else wanted.shape[1]
            if tp == before[0]:
                assert files.read_entries == stop - start
            elif target.dim == 0:
                assert files.read_entries < stop - start + 4 * inner  # whole rows, at both ends of two spans


def test_rows_that_pad_a_vocabulary_are_zeros_and_dropped() -> None:
    def table(rows: int) -> Shard:
        return Shard(VOCABULARY[0], "", (rows, 2), 0, (Span(0, 0, rows),), "float32")

    held = torch.arange(12, dtype=torch.float32) + 1
    model = SavedModel("actor", [Fragment("f", table(6), 0, 12, ("param",))], read=lambda f, n, a, b: held[a:b])
    assert model.entries(table(8), kind="param").tolist() == [*held.tolist(), 0, 0, 0, 0]
    assert model.entries(table(4), kind="param").tolist() == held[:8].tolist()
    tied = Shard(VOCABULARY[1], "", (6, 2), 0, (Span(0, 0, 6),), "float32")  # the last stage's copy
    assert torch.equal(model.entries(tied, kind="param"), held)


def test_what_lacks_is_named() -> None:
    files = Files(tp=1, dp=3)
    files.fragments = [each for each in files.fragments if each.file != "0.1"]
    target, _ = shard(LAYER + "mlp.linear_fc2.weight", tp=1, rank=0)
    with pytest.raises(ValueError, match=r"lacks entries \d+ to 48 of param of actor's .*linear_fc2"):
        files.model().entries(target, kind="param")
    with pytest.raises(ValueError, match=r"has no parameter decoder.other of actor"):
        files.model().entries(Shard("decoder.other", "", (1,), 0, (Span(0, 0, 1),), "float32"), kind="param")


def test_a_fused_norm_is_saved_under_the_local_layers_name() -> None:
    shape = {"shape": (6,), "dim": 0, "spans": (Span(0, 0, 6),), "dtype": "float32"}
    fused = Shard(LAYER + "self_attention.linear_qkv.layer_norm_weight", "local", **shape)  # type: ignore[arg-type]
    assert layout_independent(fused).name == LAYER + "input_layernorm.weight"
    assert layout_independent(fused).local_name == "local"
    bias, _ = shard(LAYER + "self_attention.linear_qkv.bias", tp=1, rank=0)
    assert layout_independent(bias) == bias

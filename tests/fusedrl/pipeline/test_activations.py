"""What plans count is what autograd keeps: within 1 % on real Megatron-Core stages, whatever is computed again."""

from typing import Any

import pytest

from fusedrl.models.experts import Experts
from fusedrl.models.options import Recompute, StageOptions
from tests.distributed.pool import RankPool

PEAKS = "tests.fusedrl.pipeline.memory_jobs:peaks"
RECOMPUTED = {
    "all-kept": None,
    "selective": Recompute("selective"),
    "full": Recompute("full"),
    "full2": Recompute("full", "uniform", 2),
    "block": Recompute("full", "block", 3),
}
EXPERTS = {"family": "qwen3_moe", "qkv_bias": False}
ARCHS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "biased": {"qkv_bias": False, "family": "llama"},
    "all-heads": {"num_kv_heads": 4},
    "head-norms": {"family": "qwen3", "qkv_bias": False},
    "experts": EXPERTS | {"experts": Experts(count=8, per_token=3, ffn_hidden_size=64)},
    "head-norms-all-heads": {"family": "qwen3", "qkv_bias": False, "num_kv_heads": 4},
}


def assert_planned(ranks: RankPool, *, world: int = 1, **kwargs: Any) -> None:
    measured, planned = ranks.run(PEAKS, world=world, **kwargs)[0]
    assert min(measured) > 0
    assert planned == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize("recompute", RECOMPUTED.values(), ids=RECOMPUTED)
@pytest.mark.parametrize("name", ["actor", "critic"])
def test_planned_memory_is_what_is_held(ranks: RankPool, name: str, recompute: Recompute | None) -> None:
    assert_planned(ranks, names=(name,), options=StageOptions(recompute=recompute))


@pytest.mark.parametrize("recompute", [None, Recompute("selective")], ids=["all-kept", "selective"])
@pytest.mark.parametrize("arch", ARCHS.values(), ids=ARCHS)
def test_planned_memory_is_what_is_held_by_every_kind_of_attention(
    ranks: RankPool, arch: dict[str, Any], recompute: Recompute | None
) -> None:
    assert_planned(ranks, arch=arch, options=StageOptions(recompute=recompute))


@pytest.mark.parametrize("arch", ARCHS.values(), ids=ARCHS)
def test_planned_memory_is_what_is_held_in_bfloat16(ranks: RankPool, arch: dict[str, Any]) -> None:
    assert_planned(ranks, arch=arch, dtype="bfloat16")


@pytest.mark.parametrize("shape", [(1, 8), (5, 8), (1, 128)])
def test_planned_memory_is_what_is_held_by_any_rows_and_tokens(ranks: RankPool, shape: tuple[int, int]) -> None:
    assert_planned(ranks, shape=shape)


@pytest.mark.parametrize("layout", [(1, 2, 1), (2, 1, 1), (2, 2, 1)], ids=["pp2", "tp2", "tp2_pp2"])
def test_planned_memory_is_what_each_rank_holds(ranks: RankPool, layout: tuple[int, int, int]) -> None:
    assert_planned(ranks, world=layout[0] * layout[1], layout=layout)


@pytest.mark.parametrize("recompute", [None, Recompute("full")], ids=["all-kept", "full"])
@pytest.mark.parametrize("name", ["actor", "critic"])
def test_planned_memory_is_what_is_held_where_ranks_share_tokens(
    ranks: RankPool, name: str, recompute: Recompute | None
) -> None:
    options = StageOptions(recompute=recompute, sequence_parallel=True)
    assert_planned(ranks, world=2, layout=(2, 1, 1), names=(name,), options=options)


@pytest.mark.parametrize(
    ("arch", "recompute", "dtype"),
    [
        ("grouped", None, "float32"),
        ("all-heads", None, "bfloat16"),
        ("head-norms", None, "float32"),
        ("grouped", Recompute("selective"), "float32"),
        ("grouped", Recompute("full"), "float32"),
    ],
    ids=["grouped", "all-heads-bf16", "head-norms", "selective", "full"],
)
def test_planned_memory_is_what_is_held_where_ranks_share_rows(
    ranks: RankPool, arch: str, recompute: Recompute | None, dtype: str
) -> None:
    options: dict[str, Any] = {"options": StageOptions(recompute=recompute), "arch": ARCHS[arch], "dtype": dtype}
    assert_planned(ranks, world=2, layout=(1, 1, 1, 2), **options)


@pytest.mark.parametrize(
    ("arch", "recompute", "lengths"),
    [("grouped", None, (48, 48)), ("grouped", None, (64, 30, 7)), ("head-norms", Recompute("selective"), (48, 20))],
    ids=["even", "ragged", "head-norms-selective"],
)
def test_planned_memory_is_what_is_held_by_packed_rows(
    ranks: RankPool, arch: str, recompute: Recompute | None, lengths: tuple[int, ...]
) -> None:
    options: dict[str, Any] = {"options": StageOptions(recompute=recompute, packed=True), "arch": ARCHS[arch]}
    assert_planned(ranks, shape=(len(lengths), max(lengths)), lengths=lengths, **options)

"""The law: an order changes when work happens, never what is computed. On real Megatron-Core stages, actor forward and
critic reversed: gradients, their norms, parameters and optimizer state after two passes."""

from typing import Any

import numpy as np
import pytest

from tests.distributed.pool import RankPool

RUN = "tests.fusedrl.pipeline.law_jobs:run_law"
UNEQUAL = [{"actor": 4, "critic": 2}, {"actor": 1, "critic": 3}]
LAYOUTS = {"pp2": (1, 2, 1), "pp4": (1, 4, 1), "tp2_pp2": (2, 2, 1), "pp2_dp2": (1, 2, 2)}


def run(ranks: RankPool, layout: tuple[int, int, int], **kwargs: Any) -> list[dict[str, Any]]:
    tp, pp, dp = layout
    return ranks.run(RUN, world=tp * pp * dp, layout=layout, **kwargs)


def assert_bit_equal(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    for rank, (one, other) in enumerate(zip(first, second, strict=True)):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert np.array_equal(value, other[key]), f"rank {rank}: {key}"


def merged(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Whole tensors and global figures of all ranks."""
    kinds = ("whole", "whole_grad", "norm", "metric")
    return {key: value for rank in results for key, value in rank.items() if key.split("/")[2] in kinds}


def assert_close(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert np.abs(np.asarray(value) - np.asarray(second[key])).max() < 1e-5, key


def check_moved(results: list[dict[str, Any]]) -> None:
    """The comparison would be empty if nothing trained: the first pass moves every parameter of each rank."""
    for rank in results:
        for key, value in rank.items():
            if key.startswith("0/") and "/grad/" in key:
                assert np.abs(value).max() > 0, key
            if key.endswith("/norm"):
                assert value > 1e-3, key
            if key.endswith("/success"):
                assert value


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("distributed_optimizer", [False, True], ids=["adam", "distributed"])
def test_any_order_equals_serial_bit_for_bit(
    ranks: RankPool, layout: tuple[int, int, int], distributed_optimizer: bool
) -> None:
    serial, *others = (
        run(
            ranks,
            layout,
            method=method,
            passes=UNEQUAL,
            replicas=layout[2],
            distributed_optimizer=distributed_optimizer,
        )
        for method in ("serial", "fused_split", *([] if distributed_optimizer else ["fused", "random7", "split7"]))
    )
    check_moved(serial)
    for other in others:
        assert_bit_equal(serial, other)


@pytest.mark.parametrize("counts", [{"actor": 1, "critic": 1}, {"actor": 3, "critic": 1}, {"actor": 4, "critic": 4}])
def test_law_holds_for_one_micro_batch_and_fewer_than_stages(ranks: RankPool, counts: dict[str, int]) -> None:
    passes = [counts, {"actor": 2, "critic": 3}]
    serial, fused = (run(ranks, (1, 4, 1), method=method, passes=passes) for method in ("serial", "fused"))
    assert_bit_equal(serial, fused)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_fused_layouts_equal_a_plain_loop_on_one_rank(
    ranks: RankPool, layout: tuple[int, int, int], tied: bool
) -> None:
    replicas = layout[2]
    split = run(ranks, layout, method="fused", passes=UNEQUAL, replicas=replicas, tied=tied)
    whole = run(ranks, (1, 1, 1), method="plain", passes=UNEQUAL, replicas=replicas, tied=tied)
    check_moved(whole)
    assert_close(merged(whole), merged(split))


def test_distributed_optimizer_equals_a_plain_loop_on_one_rank(ranks: RankPool) -> None:
    split = run(ranks, (1, 2, 2), method="fused", passes=UNEQUAL, replicas=2, distributed_optimizer=True)
    whole = run(ranks, (1, 1, 1), method="plain", passes=UNEQUAL, replicas=2, distributed_optimizer=True)
    assert_close(merged(whole), merged(split))


def test_gradients_do_not_depend_on_how_rows_are_cut(ranks: RankPool) -> None:
    """Replicas as micro-batches of one replica: twice the micro-batches, the same global batch."""
    two = run(ranks, (1, 2, 2), method="fused", passes=UNEQUAL, replicas=2)
    one = run(ranks, (1, 2, 1), method="fused", passes=UNEQUAL, replicas=2)
    assert_close(merged(one), merged(two))


@pytest.mark.parametrize("layout", [(1, 2, 1), (2, 2, 1), (1, 4, 1)], ids=["pp2", "tp2_pp2", "pp4"])
@pytest.mark.parametrize("method", ["serial", "fused"])
def test_three_forward_only_models_score_as_whole_models_do(
    ranks: RankPool, layout: tuple[int, int, int], method: str
) -> None:
    infer = "tests.fusedrl.pipeline.law_jobs:run_inference"
    split = ranks.run(infer, world=layout[0] * layout[1], layout=layout, method=method)
    (whole,) = ranks.run(infer, world=1, layout=(1, 1, 1), method="plain")
    for name, outputs in whole.items():
        for rank in split:
            for one, other, first in zip(outputs, rank[name], split[0][name], strict=True):
                assert np.abs(one).max() > 0.01
                assert np.abs(one - other).max() < 1e-5
                assert np.array_equal(other, first)

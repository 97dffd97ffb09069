"""The law: an order changes when work happens, never what is computed. On real Megatron-Core stages, actor forward and
critic reversed: gradients, their norms, parameters and optimizer state after two passes of different sizes."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fusedrl.models.options import Recompute, StageOptions
from fusedrl.models.stage_layers import StageLayers
from tests.distributed.pool import RankPool

RUN = "tests.fusedrl.pipeline.law_jobs:run_law"
UNEQUAL = [{"actor": 4, "critic": 2}, {"actor": 1, "critic": 3}]
EVEN = [{"actor": 4, "critic": 2}, {"actor": 2, "critic": 4}]  # interleaved 1F1B needs multiples of pp
LAYOUTS = {"pp2": (1, 2, 1), "pp4": (1, 4, 1), "tp2_pp2": (2, 2, 1), "pp2_dp2": (1, 2, 2)}
FULL = [(1, 2, 1), (1, 4, 1)]  # layouts that are tried with all orders; those with tp or dp with two
ORDERS = ("fused", "fused_split", "zero_bubble", "random7", "split7", "mixed7")


def run(ranks: RankPool, layout: tuple[int, ...], **kwargs: Any) -> list[dict[str, Any]]:
    return ranks.run(RUN, world=math.prod(layout), layout=layout, **kwargs)


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
    """Within 1e-5; a norm of more than 10, a float32 of steps of 4e-6 at 32, within a millionth of itself."""
    assert first.keys() == second.keys()
    for key, value in first.items():
        one, other = np.asarray(value), np.asarray(second[key])
        most = max(1e-5, 1e-6 * float(one)) if key.endswith("/norm") else 1e-5
        assert np.abs(one - other).max() < most, key


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
    orders = ("fused_split",) if distributed_optimizer else ORDERS if layout in FULL else ("fused", "mixed7")
    options = {"passes": UNEQUAL, "replicas": layout[2], "distributed_optimizer": distributed_optimizer}
    serial, *others = (run(ranks, layout, method=method, **options) for method in ("serial", *orders))
    check_moved(serial)
    for other in others:
        assert_bit_equal(serial, other)


@pytest.mark.parametrize(
    ("layout", "tied"),
    [((1, 2, 1), False), ((1, 2, 1), True), ((2, 2, 1), True), ((1, 2, 2), True)],
    ids=["pp2", "pp2-tied", "tp2_pp2-tied", "pp2_dp2-tied"],
)
@pytest.mark.parametrize(
    ("shape", "methods"),
    [("v", ["zero_bubble", "fused_split", "mixed3"]), ("interleaved", ["interleaved", "fused_split", "split3"])],
    ids=["v", "interleaved"],
)
def test_any_order_of_several_stages_a_rank_equals_serial_and_a_plain_loop(
    ranks: RankPool, layout: tuple[int, int, int], shape: str, methods: list[str], tied: bool
) -> None:
    """Tied: in a V both copies of the table are on one rank."""
    methods = methods if layout in FULL else ["fused_split"]
    options = {"passes": EVEN, "replicas": layout[2], "tied": tied}
    serial, *others = (run(ranks, layout, method=m, shape=shape, **options) for m in ("serial", *methods))
    check_moved(serial)
    for other in others:
        assert_bit_equal(serial, other)
    assert_close(merged(run(ranks, (1, 1, 1), method="plain", **options)), merged(serial))


@pytest.mark.parametrize("distributed_optimizer", [False, True], ids=["adam", "distributed"])
def test_law_holds_for_eight_stages_in_a_v_on_four_ranks(ranks: RankPool, distributed_optimizer: bool) -> None:
    options = {"passes": UNEQUAL, "num_layers": 8, "distributed_optimizer": distributed_optimizer}
    methods = ("serial", "fused_split") if distributed_optimizer else ("serial", "zero_bubble", "fused_split")
    serial, *others = (run(ranks, (1, 4, 1), method=method, shape="v", **options) for method in methods)
    check_moved(serial)
    for other in others:
        assert_bit_equal(serial, other)


UNEVEN = {
    "pp2-tied": ((1, 2, 1), "line", StageLayers(each=(1, 3)), "split3", True),
    "first": ((1, 4, 1), "line", StageLayers(first=1, last=3), "fused", False),
    "one-v": ((1, 1, 1), "v", StageLayers(last=5), "fused", False),
    "tp2_pp2-v-tied": ((2, 2, 1), "v", StageLayers(each=(1, 3, 2, 2)), "fused_split", True),
}


@pytest.mark.parametrize(("layout", "shape", "layers", "method", "tied"), UNEVEN.values(), ids=UNEVEN)
def test_uneven_stages_equal_a_plain_loop_on_one_rank(
    ranks: RankPool, layout: tuple[int, int, int], shape: str, layers: StageLayers, method: str, tied: bool
) -> None:
    count = sum(layers.each or ()) or 8
    options = {"passes": UNEQUAL, "num_layers": count, "tied": tied}
    whole = run(ranks, (1, 1, 1), method="plain", **options)
    shared = run(ranks, layout, method=method, shape=shape, options=StageOptions(layers=layers), **options)
    check_moved(shared)
    assert_close(merged(whole), merged(shared))


@pytest.mark.parametrize(
    ("method", "shape", "tied", "distributed_optimizer"),
    [("fused", "line", False, False), ("fused_split", "v", False, True), ("split3", "line", True, True)],
    ids=["fused", "split-v-distributed", "split-tied-distributed"],
)
def test_overlapped_reductions_are_the_same_bits(
    ranks: RankPool, method: str, shape: str, tied: bool, distributed_optimizer: bool
) -> None:
    """Also where a split backward gives no gradient in B."""
    options = {"passes": UNEQUAL, "replicas": 2, "shape": shape, "tied": tied}
    options |= {"method": method, "distributed_optimizer": distributed_optimizer}
    after, meanwhile = (run(ranks, (1, 2, 2), overlap=overlap, **options) for overlap in (False, True))
    check_moved(meanwhile)
    assert_bit_equal(after, meanwhile)


SHARED_TOKENS = StageOptions(sequence_parallel=True)


@pytest.mark.parametrize(
    ("layout", "distributed_optimizer", "tied"),
    [((2, 1, 1), False, False), ((2, 2, 1), True, True), ((2, 1, 2), True, False), ((2, 1, 2), False, True)],
    ids=["tp2", "tp2_pp2-distributed-tied", "tp2_dp2-distributed", "tp2_dp2-tied"],
)
def test_sequence_parallel_equals_a_plain_loop_on_one_rank(
    ranks: RankPool, layout: tuple[int, int, int], distributed_optimizer: bool, tied: bool
) -> None:
    """Lengths of the micro-batches are even and odd: those that two ranks cannot share are padded."""
    options = {"passes": UNEQUAL, "replicas": layout[2], "tied": tied, "distributed_optimizer": distributed_optimizer}
    whole = run(ranks, (1, 1, 1), method="plain", **options)
    shared = run(ranks, layout, method="fused", options=SHARED_TOKENS, **options)
    check_moved(shared)
    assert_close(merged(whole), merged(shared))


def test_sequence_parallel_splits_backwards_and_recomputes_the_same_bits(ranks: RankPool) -> None:
    serial, split = (
        run(ranks, (2, 2, 1), method=method, passes=UNEQUAL, options=SHARED_TOKENS) for method in ("serial", "split3")
    )
    assert_bit_equal(serial, split)
    again = replace(SHARED_TOKENS, recompute=Recompute("full"))
    assert_bit_equal(serial, run(ranks, (2, 2, 1), method="fused", passes=UNEQUAL, options=again))


RECOMPUTED = {
    "selective": Recompute("selective"),
    "uniform": Recompute("full"),
    "uniform2": Recompute("full", "uniform", 2),
    "block": Recompute("full", "block", 1),
}


@pytest.mark.parametrize(
    ("layout", "recompute"),
    [*(((1, 1, 1), each) for each in RECOMPUTED.values()), ((1, 2, 1), RECOMPUTED["uniform"])],
    ids=[*RECOMPUTED, "pp2"],
)
def test_recomputed_activations_are_the_same_bits(
    ranks: RankPool, layout: tuple[int, int, int], recompute: Recompute
) -> None:
    kept, again = (
        run(ranks, layout, method="fused", passes=UNEQUAL, options=options)
        for options in (StageOptions(), StageOptions(recompute=recompute))
    )
    check_moved(again)
    assert_bit_equal(kept, again)


def test_selective_recomputation_leaves_split_backwards_the_same_bits(ranks: RankPool) -> None:
    options = StageOptions(recompute=Recompute("selective"))
    kept = run(ranks, (1, 1, 1), method="serial", passes=UNEQUAL)
    assert_bit_equal(kept, run(ranks, (1, 1, 1), method="mixed3", passes=UNEQUAL, options=options))


def test_splitting_orders_are_refused_where_whole_layers_are_computed_again(ranks: RankPool) -> None:
    with pytest.raises(Exception, match=r"actor: the order splits its backwards, .* or whole layers again"):
        run(ranks, (1, 1, 1), method="split1", passes=UNEQUAL, options=StageOptions(recompute=Recompute("full")))


@pytest.mark.parametrize("counts", [{"actor": 1, "critic": 1}, {"actor": 3, "critic": 1}, {"actor": 4, "critic": 4}])
@pytest.mark.parametrize(("shape", "layout"), [("line", (1, 4, 1)), ("v", (1, 2, 1))], ids=["line", "v"])
def test_law_holds_for_one_micro_batch_and_fewer_than_stages(
    ranks: RankPool, counts: dict[str, int], shape: str, layout: tuple[int, int, int]
) -> None:
    passes = [counts, {"actor": 2, "critic": 3}]
    serial, *others = (
        run(ranks, layout, method=method, passes=passes, shape=shape)
        for method in ("serial", "fused_split", "zero_bubble")
    )
    for other in others:
        assert_bit_equal(serial, other)


@pytest.mark.parametrize("names", [["actor"], ["critic"], ["actor", "critic", "second"]], ids="-".join)
@pytest.mark.parametrize("shape", ["line", "v"])
def test_law_holds_for_one_model_and_for_three(ranks: RankPool, names: list[str], shape: str) -> None:
    passes = [{name: 2 + i for i, name in enumerate(names)}, {name: 3 - i for i, name in enumerate(names)}]
    serial, *others = (
        run(ranks, (1, 2, 1), method=method, passes=passes, shape=shape)
        for method in ("serial", "fused_split", "split5")
    )
    check_moved(serial)
    for other in others:
        assert_bit_equal(serial, other)


@pytest.mark.parametrize("layout", [(1, 1, 1), (2, 1, 1)], ids=["one", "tp2"])
def test_table_shared_by_embedding_and_head_of_one_stage_counts_once_in_a_split_backward(
    ranks: RankPool, layout: tuple[int, int, int]
) -> None:
    serial, split, mixed = (
        run(ranks, layout, method=method, passes=UNEQUAL, tied=True) for method in ("serial", "split1", "mixed1")
    )
    check_moved(serial)
    assert_bit_equal(serial, split)
    assert_bit_equal(serial, mixed)
    assert_close(merged(run(ranks, (1, 1, 1), method="plain", passes=UNEQUAL, tied=True)), merged(split))


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


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_distributed_optimizer_equals_a_plain_loop_on_one_rank(ranks: RankPool, tied: bool) -> None:
    options = {"passes": UNEQUAL, "replicas": 2, "distributed_optimizer": True, "tied": tied}
    split = run(ranks, (1, 2, 2), method="fused", **options)
    whole = run(ranks, (1, 1, 1), method="plain", **options)
    assert_close(merged(whole), merged(split))


APART = {  # (tp, pp, dp, cp) of actor and critic, an order, options
    "pp4-pp2_dp2": ((1, 4, 1), (1, 2, 2), "fused_split", {}),
    "pp2_dp2-pp4": ((1, 2, 2), (1, 4, 1), "fused", {"distributed_optimizer": True, "overlap": True}),
    "tp2_pp2-pp2_dp2": ((2, 2, 1), (1, 2, 2), "mixed7", {"tied": True, "distributed_optimizer": True}),
    "pp2_dp2-tp2_pp2": ((1, 2, 2), (2, 2, 1), "fused", {"overlap": True}),
    "tp2_pp2-pp4": ((2, 2, 1), (1, 4, 1), "fused_split", {}),
    "cp2_pp2-pp2_dp2": ((1, 2, 1, 2), (1, 2, 2), "fused", {}),
}


@pytest.mark.parametrize(("actor", "critic", "order", "options"), APART.values(), ids=APART)
def test_models_of_unequal_layouts_train_the_same_bits_in_any_order_and_as_a_plain_loop(
    ranks: RankPool, actor: tuple[int, ...], critic: tuple[int, ...], order: str, options: dict[str, Any]
) -> None:
    """In the serial run gradients are summed after the pass, overlap or not."""
    given = {"passes": UNEQUAL, "replicas": 2, **options}
    after = given | {"overlap": False}
    serial, other = (
        run(ranks, actor, critic=critic, method="serial", **after),
        run(ranks, actor, critic=critic, method=order, **given),
    )
    check_moved(serial)
    assert_bit_equal(serial, other)
    assert_close(merged(run(ranks, (1, 1, 1), method="plain", **after)), merged(serial))


def test_model_is_the_same_bits_whatever_the_others_layout(ranks: RankPool) -> None:
    """The critic's replicas run beside one actor, beside two, or in the actor's columns."""
    critic, options = (1, 2, 2), {"passes": UNEQUAL, "replicas": 2}
    beside = [run(ranks, actor, method="fused", critic=critic, **options) for actor in ((1, 2, 2), (1, 4, 1))]
    equal, unequal = ([{k: v for k, v in rank.items() if "/critic/" in k} for rank in each] for each in beside)
    assert_bit_equal(equal, unequal)


def test_gradients_do_not_depend_on_how_rows_are_cut(ranks: RankPool) -> None:
    """Replicas as micro-batches of one replica: twice the micro-batches, the same global batch."""
    two = run(ranks, (1, 2, 2), method="fused", passes=UNEQUAL, replicas=2)
    one = run(ranks, (1, 2, 1), method="fused", passes=UNEQUAL, replicas=2)
    assert_close(merged(one), merged(two))


@pytest.mark.parametrize(
    ("layout", "options", "method"),
    [
        ((1, 2, 1), StageOptions(), "fused_split"),
        ((2, 2, 1), StageOptions(sequence_parallel=True), "mixed7"),
        ((1, 2, 1), StageOptions(recompute=Recompute("full")), "fused"),
        ((1, 1, 1), StageOptions(packed=True), "random7"),
        ((1, 1, 1, 2), StageOptions(), "fused"),
    ],
    ids=["pp2-split", "tp2_pp2-sequence-mixed", "pp2-full", "packed", "cp2"],
)
def test_experts_train_the_same_bits_in_any_order_and_as_a_plain_loop(
    ranks: RankPool, plain_experts: dict[str, Any], layout: tuple[int, ...], options: StageOptions, method: str
) -> None:
    """Routers and experts of an actor and a critic; layer 1 is dense."""
    kind: dict[str, Any] = {"passes": UNEQUAL, "experts": True, "options": options}
    found = run(ranks, layout, method=method, **kind)
    check_moved(found)
    assert any("mlp.experts.3.up_proj" in key for rank in found for key in rank)
    assert_bit_equal(run(ranks, layout, method="serial", **kind), found)
    assert_close(plain_experts, merged(found))


@pytest.fixture(scope="module")
def plain_experts(ranks: RankPool) -> dict[str, Any]:
    return merged(run(ranks, (1, 1, 1), method="plain", passes=UNEQUAL, experts=True))


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

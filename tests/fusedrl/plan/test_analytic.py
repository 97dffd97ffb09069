"""Costs by formula, against sums by hand: a device with one limit at a time, of a round figure that it reaches."""

from dataclasses import replace

import pytest

from fusedrl.plan.analytic import LAYER_KERNELS, AnalyticCosts
from fusedrl.plan.cluster import Cluster, Link, Reached, read_cluster, read_device
from fusedrl.plan.sizes import read_model
from schedules.transformer.flops import head_flops, layer_flops
from schedules.transformer.shapes import SHAPES

NEVER = 1e30  # a limit that nothing reaches
ALL = Reached(matrix=1.0, attention=1.0, memory=1.0, link=1.0)
MODEL = read_model("llama_7b")
SHAPE = SHAPES["llama_7b"]


def costs(
    *, peak: float = NEVER, memory: float = NEVER, link: float = NEVER, launch: float = 0.0, latency: float = 0.0
) -> AnalyticCosts:
    sheet = read_device("h100")
    device = replace(sheet, peak={"bfloat16": peak}, memory_bandwidth=memory, launch=launch, reached=ALL)
    links = Link(link, latency)
    return AnalyticCosts(Cluster("by hand", device, nodes=1, devices=8, inside=links, between=links))


@pytest.mark.parametrize("tp", [1, 4])
def test_where_flops_decide_a_layer_takes_the_flops_of_its_shape(tp: int) -> None:
    passes = costs(peak=1e12).layer(MODEL, tp=tp, tokens=4096, length=2048)
    work = layer_flops(SHAPE, lengths=[2048, 2048])
    assert passes.forward == pytest.approx(work.forward / tp / 1e12, rel=1e-12)
    assert passes.backward == pytest.approx(work.backward / tp / 1e12, rel=1e-12)
    assert passes.weight_gradient == pytest.approx(work.weight_gradient / tp / 1e12, rel=1e-12)


def test_rows_of_many_lengths_cost_what_their_mean_by_tokens_does() -> None:
    lengths = [100, 700, 1200]
    mean = sum(t * t for t in lengths) / sum(lengths)
    passes = costs(peak=1e12).layer(MODEL, tp=1, tokens=sum(lengths), length=mean)
    assert passes.forward == pytest.approx(layer_flops(SHAPE, lengths=lengths).forward / 1e12, rel=1e-12)


def test_the_head_is_a_product_and_a_value_head_next_to_nothing() -> None:
    flops = head_flops(SHAPE, tokens=512)
    passes = costs(peak=1e12).head(MODEL, tp=2, tokens=512)
    assert passes.forward == pytest.approx(flops.forward / 2 / 1e12, rel=1e-9)
    assert passes.backward == pytest.approx(flops.backward / 2 / 1e12, rel=1e-9)
    assert costs(peak=1e12).head(MODEL.with_head("value"), tp=2, tokens=512).backward < 1e-12


def test_a_decode_step_reads_weights_and_cache() -> None:
    rows, context, h = 3, 50, 4096
    weights = (4 * h * h + 3 * h * 11008) * 2
    cache = rows * context * 2 * h * 2
    products = rows * (4 * h + 4 * h + 3 * 11008) * 2
    plain = rows * (10 * h + 4 * h + 3 * 11008) * 2
    found = costs(memory=1e9).decode(MODEL, tp=1, rows=rows, context=context)
    assert found == pytest.approx((weights + cache + products + plain) / 1e9, rel=1e-12)


def test_tensor_parallelism_costs_two_all_reduces_of_the_hidden_states_a_pass() -> None:
    nbytes = 1024 * 4096 * 2
    passes = costs(link=1e9, latency=1e-3).layer(MODEL, tp=4, tokens=1024, length=512)
    once = 2 * (2 * (3 / 4 * nbytes / 1e9 + 2 * 1e-3))
    assert passes.forward == pytest.approx(once, rel=1e-12)
    assert passes.backward == pytest.approx(once, rel=1e-12)
    assert passes.weight_gradient < 1e-12
    assert costs(link=1e9).layer(MODEL, tp=1, tokens=1024, length=512).forward < 1e-12


def test_context_parallelism_gathers_keys_and_values_and_shares_the_rest() -> None:
    work = costs(peak=1e12)
    halves = work.layer(MODEL, tp=1, tokens=4096, length=2048, cp=2).forward
    assert halves == pytest.approx(work.layer(MODEL, tp=1, tokens=4096, length=2048).forward / 2, rel=1e-12)
    keys_and_values = 4096 * 2 * 4096 * 2
    shared = costs(link=1e9).layer(MODEL, tp=1, tokens=4096, length=2048, cp=2)
    assert shared.forward == pytest.approx(keys_and_values / 2 / 1e9, rel=1e-12)
    assert shared.backward == pytest.approx(keys_and_values / 2 / 1e9, rel=1e-12)


def test_each_kernel_pays_its_launch() -> None:
    passes = costs(launch=1e-6).layer(MODEL, tp=1, tokens=64, length=64)
    assert passes.forward == pytest.approx(LAYER_KERNELS * 1e-6)
    assert passes.backward == pytest.approx(2 * LAYER_KERNELS * 1e-6)


def test_the_slower_of_flops_and_bytes_decides_a_product() -> None:
    both = costs(peak=1e12, memory=1e9).head(MODEL, tp=1, tokens=1)
    assert both.forward > costs(peak=1e12).head(MODEL, tp=1, tokens=1).forward
    assert both.forward == costs(memory=1e9).head(MODEL, tp=1, tokens=1).forward


def test_messages_copies_and_adam() -> None:
    found = costs(link=1e9, latency=1e-3, memory=1e9)
    assert found.message(5e8, across_nodes=False) == 0.5 + 1e-3
    assert found.reshard(0, across_nodes=True) == 0.0
    assert found.optimizer_step(1e6) == pytest.approx(34e6 / 1e9)
    assert found.host_copy(55e9) == 1.0


def test_a_dtype_that_the_sheet_does_not_tell_is_refused() -> None:
    with pytest.raises(ValueError, match=r"dtype=float16: the sheet of h100 tells bfloat16, float32"):
        AnalyticCosts(read_cluster("h100_1x8"), dtype="float16")

"""Costs by formula, against sums by hand: a device with one limit at a time, of a round figure that it reaches."""

from dataclasses import replace

import pytest

from fusedrl.models.experts import Experts
from fusedrl.plan.analytic import LAYER_KERNELS, AnalyticCosts, matrices
from fusedrl.plan.cluster import Cluster, Link, Reached, read_cluster, read_device
from fusedrl.plan.sizes import ModelSizes, read_model
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


def test_where_bytes_decide_a_layer_moves_weights_and_activations() -> None:
    h, f, tokens = 4096, 11008, 10
    weights = 4 * h * h + 3 * h * f
    through = tokens * (4 * h + 4 * h + 3 * f) * 2
    plain = tokens * (10 * h + 4 * h + 3 * f) * 2
    passes = costs(memory=1e9).layer(MODEL, tp=1, tokens=tokens, length=5)
    assert passes.forward == pytest.approx((2 * weights + through + plain) / 1e9, rel=1e-12)
    assert passes.weight_gradient == pytest.approx((8 * weights + through) / 1e9, rel=1e-12)
    inputs = passes.backward - passes.weight_gradient
    assert inputs == pytest.approx((2 * weights + through + 2 * plain) / 1e9, rel=1e-12)


def test_where_bytes_decide_the_head_moves_its_table_and_the_logits() -> None:
    h, v, tokens = 4096, 32000, 10
    product = 2 * h * v + tokens * (h + v) * 2
    norm, loss = 2 * tokens * h * 2, tokens * v * (2 + 4)
    passes = costs(memory=1e9).head(MODEL, tp=1, tokens=tokens)
    assert passes.forward == pytest.approx((norm + product + loss) / 1e9, rel=1e-12)
    gradient = 8 * h * v + tokens * (h + v) * 2
    assert passes.backward == pytest.approx((2 * norm + product + loss + gradient) / 1e9, rel=1e-12)


def test_where_flops_decide_a_decode_step_multiplies_and_attends() -> None:
    rows, context, h = 3, 50, 4096
    flops = 2 * rows * (4 * h * h + 3 * h * 11008) + 4 * rows * context * h
    assert costs(peak=1e12).decode(MODEL, tp=1, rows=rows, context=context) == pytest.approx(flops / 1e12, rel=1e-12)


def test_logits_of_a_decode_step_are_gathered_for_sampling() -> None:
    gathered, summed = 3 / 4 * 8 * 32256 * 4, 2 * 3 / 4 * 8 * 4096 * 2  # 32256 rows of the table at tp 4
    found = costs(link=1e9).decode_ends(MODEL, tp=4, rows=8)
    assert found == pytest.approx((gathered + summed) / 1e9, rel=1e-12)


def test_experts_cost_a_token_its_own_and_a_step_those_that_it_reads() -> None:
    experts = Experts(count=8, per_token=2, ffn_hidden_size=100, dense_layers=(0,))
    arch = replace(read_model("tiny").arch, family="qwen3_moe", experts=experts)  # of 4 layers 3 have experts
    model, attention, each = ModelSizes("moe", arch), 2 * 32 * 6 * 8, 3 * 32 * 100
    met = attention + 0.25 * 3 * 32 * 64 + 0.75 * 2 * each
    passes = costs(peak=1e12).layer(model, tp=1, tokens=64, length=1)
    assert passes.weight_gradient == pytest.approx(2 * 64 * met / 1e12, rel=1e-12)
    for tokens, read in ((1, 2), (3, 6), (50, 8)):
        found = matrices(arch, tp=1, tokens=tokens)
        assert found.stored == attention + 0.25 * 3 * 32 * 64 + 0.75 * read * each


def test_context_parallel_ranks_on_other_nodes_pay_the_link_between() -> None:
    near = costs(link=1e9)
    far = replace(near, cluster=replace(near.cluster, nodes=2, devices=2, between=Link(1e6, 0.0)))
    shared = 4096 * 2 * 4096 * 2 / 2  # bytes of a rank of tp
    inside = far.layer(MODEL, tp=1, tokens=4096, length=64, cp=2).forward
    assert inside == near.layer(MODEL, tp=1, tokens=4096, length=64, cp=2).forward
    summed = near.layer(MODEL, tp=2, tokens=2048, length=64).forward
    across = far.layer(MODEL, tp=2, tokens=4096, length=64, cp=2).forward
    assert across == pytest.approx(summed + 1 / 2 * shared / 1e6, rel=1e-12)


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

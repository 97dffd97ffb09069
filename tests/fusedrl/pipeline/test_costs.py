from dataclasses import dataclass

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fusedrl.models.experts import Experts
from fusedrl.models.options import Recompute, StageOptions
from fusedrl.pipeline.costs import ConstantCost, CountedCost


@dataclass(frozen=True)
class Sizes:
    hidden_size: int = 16
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 8
    ffn_hidden_size: int = 24
    vocab_size: int = 50
    qk_norm: bool = False
    experts: Experts | None = None


def counted_by_torch(sizes: Sizes, *, rows: int, length: int) -> int:
    """One layer's matrix products, run on the meta device."""
    x = torch.empty(rows * length, sizes.hidden_size, device="meta")
    heads, kv = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    q = torch.empty(rows * sizes.num_heads, length, sizes.head_dim, device="meta")
    with FlopCounterMode(display=False) as counter:
        x @ torch.empty(sizes.hidden_size, heads + 2 * kv, device="meta")
        torch.empty(rows * sizes.num_heads, length, length, device="meta") @ q
        q @ q.transpose(1, 2)
        torch.empty(rows * length, heads, device="meta") @ torch.empty(heads, sizes.hidden_size, device="meta")
        for _ in range(2):
            x @ torch.empty(sizes.hidden_size, sizes.ffn_hidden_size, device="meta")
        down = torch.empty(sizes.ffn_hidden_size, sizes.hidden_size, device="meta")
        torch.empty(rows * length, sizes.ffn_hidden_size, device="meta") @ down
    return counter.get_total_flops()


def test_layer_operations_equal_torchs_count() -> None:
    cost = CountedCost(Sizes(), layers=[3, 1])
    one_layer = counted_by_torch(Sizes(), rows=2, length=5) / 1e9
    assert cost.forward(0, rows=2, length=5) == pytest.approx(3 * one_layer, rel=1e-6)


def test_experts_of_a_token_count_as_one_network_of_their_widths_and_the_router_beside_it() -> None:
    """Layer 1 is dense; a router's weight gradient is never put off."""
    experts = Experts(count=5, per_token=2, ffn_hidden_size=12, dense_layers=(1,))
    mixed, dense = (CountedCost(Sizes(experts=each), layers=[1, 3]) for each in (experts, None))
    size, router = {"rows": 2, "length": 5}, 2 * 10 * 16 * 5 * 1e-9
    for stage, routers in ((0, 1), (1, 2)):
        assert mixed.forward(stage, **size) - dense.forward(stage, **size) == pytest.approx(routers * router, abs=2e-9)
        assert mixed.weight(stage, **size) == dense.weight(stage, **size)
    wide = CountedCost(Sizes(experts=Experts(count=5, per_token=4, ffn_hidden_size=12)), layers=[1])
    assert wide.weight(0, **size) - CountedCost(Sizes(), layers=[1]).weight(0, **size) == pytest.approx(
        2 * 10 * 16 * 3 * 24 * 1e-9, abs=2e-9
    )


def test_head_is_on_the_last_stage_and_a_value_head_is_small() -> None:
    lm, value = CountedCost(Sizes(), layers=[2, 2]), CountedCost(Sizes(), layers=[2, 2], head="value")
    extra = 2 * 10 * 16 * 1e-9
    assert lm.forward(0, rows=2, length=5) == value.forward(0, rows=2, length=5)
    first = lm.forward(0, rows=2, length=5)
    assert lm.forward(1, rows=2, length=5) - first == pytest.approx(50 * extra, rel=1e-3)
    assert value.forward(1, rows=2, length=5) - first == pytest.approx(extra, rel=1e-2)
    assert lm.activation(1, rows=2, length=5) > value.activation(1, rows=2, length=5)


def test_tensor_parallel_ranks_share_the_work() -> None:
    one, two = CountedCost(Sizes(), layers=[4]), CountedCost(Sizes(), layers=[4], tp=2)
    assert two.forward(0, rows=4, length=8) == pytest.approx(one.forward(0, rows=4, length=8) / 2)
    assert two.activation(0, rows=4, length=8) < one.activation(0, rows=4, length=8)


@pytest.mark.parametrize("recompute", [None, Recompute("selective"), Recompute("full")])
def test_ranks_that_share_rows_share_the_work(recompute: Recompute | None) -> None:
    options = StageOptions(recompute=recompute)
    one, two = (CountedCost(Sizes(), layers=[4], options=options, cp=cp) for cp in (1, 2))
    for quantity in ("forward", "backward", "weight"):
        whole, shared = (getattr(cost, quantity)(0, rows=4, length=8) for cost in (one, two))
        assert shared == pytest.approx(whole / 2)
    assert two.activation(0, rows=4, length=8) < one.activation(0, rows=4, length=8)


def test_backward_costs_twice_the_forward() -> None:
    cost = CountedCost(Sizes(), layers=[4])
    assert cost.backward(0, rows=2, length=5) == 2 * cost.forward(0, rows=2, length=5)


def test_backward_counts_what_it_computes_again() -> None:
    def backward(recompute: Recompute | None) -> float:
        cost = CountedCost(Sizes(), layers=[3, 1], options=StageOptions(recompute=recompute))
        return cost.backward(0, rows=2, length=5)

    layer = counted_by_torch(Sizes(), rows=2, length=5) / 1e9
    attention = 4 * 10 * 5 * 4 * 8 / 1e9
    assert backward(Recompute("full")) == pytest.approx(9 * layer)
    assert backward(Recompute("full", "block", 2)) == pytest.approx(8 * layer)
    assert backward(Recompute("selective")) == pytest.approx(6 * layer + 3 * attention)


def test_constants_ignore_shapes() -> None:
    cost = ConstantCost(forward_time=3.0, backward_time=4.0, memory=5.0)
    assert [f(9, rows=1, length=1) for f in (cost.forward, cost.backward, cost.activation)] == [3.0, 4.0, 5.0]


def test_weight_part_is_the_products_with_weights_and_the_head() -> None:
    cost, value = CountedCost(Sizes(), layers=[2, 2]), CountedCost(Sizes(), layers=[2, 2], head="value")
    attention = 2 * 4 * 10 * 5 * 4 * 8 / 1e9  # the one product of a layer without weights: scores and their sum
    assert cost.weight(0, rows=2, length=5) == pytest.approx(cost.forward(0, rows=2, length=5) - attention)
    assert cost.weight(1, rows=2, length=5) == pytest.approx(cost.forward(1, rows=2, length=5) - attention)
    assert value.weight(1, rows=2, length=5) == pytest.approx(cost.weight(0, rows=2, length=5))
    assert ConstantCost(1.0, 3.0).weight(0, rows=1, length=1) == 1.5
    assert ConstantCost(1.0, 3.0, weight_time=1.0).weight(0, rows=1, length=1) == 1.0

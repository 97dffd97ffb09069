"""Costs from a profile."""

from dataclasses import replace
from typing import Any

import pytest

from fusedrl.models.experts import Experts
from fusedrl.plan.analytic import AnalyticCosts
from fusedrl.plan.cluster import read_cluster
from fusedrl.plan.costs import Passes
from fusedrl.plan.measured import MeasuredCosts, layer_sizes
from fusedrl.plan.sizes import ModelSizes, read_model
from tests.fusedrl.plan.example_profile import LENGTHS, TOKENS, example

TINY = read_model("tiny")
CLUSTER = read_cluster("cpu_2x2")


@pytest.fixture
def costs() -> MeasuredCosts:
    return MeasuredCosts(example(), CLUSTER)


def test_measured_points_give_the_measured_values(costs: MeasuredCosts) -> None:
    for tp in (1, 2):
        for tokens in TOKENS:
            for length in LENGTHS:
                table = costs.profile.find("layer", model="tiny", tp=tp)
                assert table is not None
                measured = Passes(*table.grid.points[tokens, length])
                assert costs.layer(TINY, tp=tp, tokens=tokens, length=length) == measured
                assert costs.prefill(TINY, tp=tp, tokens=tokens, length=length) == measured.forward
    assert costs.decode(TINY, tp=1, rows=8, context=64) == 8 * 64 / 1e6
    assert costs.decode_ends(TINY, tp=2, rows=8) == 8e-5
    assert costs.message(4096, across_nodes=False) == pytest.approx(1e-4 + 4096 / 1e9, rel=1e-5)
    assert costs.collective("all_reduce", 1024, ranks=2) == pytest.approx(2e-4 + 1024 / 5e8, rel=1e-5)
    assert costs.beyond == ()


def test_heads_are_those_of_the_model_and_w_is_a_part_of_b(costs: MeasuredCosts) -> None:
    assert costs.head(TINY, tp=1, tokens=64) == Passes(64e-6, 128e-6, 128e-6)
    assert costs.head(TINY.with_head("value"), tp=1, tokens=64) == Passes(64e-6, 128e-6, 64e-6)


def test_questions_beyond_the_measurements_are_told(costs: MeasuredCosts) -> None:
    assert (
        costs.layer(TINY, tp=1, tokens=1024, length=64).forward > costs.layer(TINY, tp=1, tokens=256, length=64).forward
    )
    assert costs.message(1024, across_nodes=True) == CLUSTER.between.seconds(1024)
    sheets = AnalyticCosts(CLUSTER, "float32")
    asked = [sheets.collective("all_reduce", 1024, ranks=n) for n in (4, 2)]
    four = costs.collective("all_reduce", 1024, ranks=4)
    assert four == pytest.approx(costs.collective("all_reduce", 1024, ranks=2) * asked[0] / asked[1])
    assert costs.optimizer_step(1000) == sheets.optimizer_step(1000)
    assert costs.beyond == (
        "all_reduce of 4 ranks on 1 nodes: from that of 2",
        "layer (model=tiny, tp=1): asked beyond the measured 64 to 256 x 16 to 64",
        "messages between nodes: by the sheet of cpu_2x2",
    )


def test_context_parallel_ranks_do_their_share_and_gather(costs: MeasuredCosts) -> None:
    shared = costs.layer(TINY, tp=1, tokens=128, length=64, cp=2)
    alone = costs.layer(TINY, tp=1, tokens=64, length=64)
    keys_and_values = 2 * 2 * 8 * 128 * 4
    assert shared.forward == alone.forward + costs.collective("all_gather", keys_and_values, ranks=2)
    assert shared.backward == alone.backward + costs.collective("reduce_scatter", keys_and_values, ranks=2)
    assert shared.weight_gradient == alone.weight_gradient


def test_any_depth_of_the_same_layers_is_the_same_model(costs: MeasuredCosts) -> None:
    deep = ModelSizes("deep", replace(TINY.arch, num_layers=48))
    assert costs.widths(deep) == (1, 2)
    assert costs.decode(deep, tp=1, rows=1, context=16) == costs.decode(TINY, tp=1, rows=1, context=16)
    assert MeasuredCosts(example(), CLUSTER.part(nodes=1, devices=1)).widths(deep) == (1,)


def test_models_whose_experts_are_alike_are_alike_however_many_layers_have_them() -> None:
    def sizes(**changed: Any) -> tuple[object, ...]:
        usual: dict[str, Any] = {"count": 8, "per_token": 2, "ffn_hidden_size": 16}
        experts = Experts(**usual | changed)
        return layer_sizes(replace(TINY.arch, family="qwen3_moe", experts=experts))

    assert sizes(dense_layers=(0, 2)) == sizes()
    assert sizes(per_token=3) != sizes()


def test_nothing_to_do_takes_no_time(costs: MeasuredCosts) -> None:
    assert costs.reshard(0, across_nodes=False) == 0.0
    assert costs.collective("broadcast", 5, ranks=1) == 0.0


def test_what_was_not_measured_is_named(costs: MeasuredCosts) -> None:
    with pytest.raises(ValueError, match=r"tiny: the profile has no layer at tp=4, only at tp=1, 2; measure it with"):
        costs.layer(TINY, tp=4, tokens=64, length=16)
    with pytest.raises(ValueError, match=r"llama_7b: the profile has no layers of these sizes; it has those of tiny"):
        costs.widths(read_model("llama_7b"))

"""Bytes of a rank by kind: against what Megatron allocates, the executor's counts, and the published formula."""

from dataclasses import replace

import pytest

from fusedrl.models.experts import Experts
from fusedrl.models.options import Recompute, StageOptions
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.costs import CountedCost
from fusedrl.plan import memory
from fusedrl.plan.memory import Memory, stages_of
from fusedrl.plan.sizes import ModelSizes, read_model
from schedules.transformer.memory import head_bytes, layer_bytes
from schedules.transformer.shapes import SHAPES
from tests.distributed.pool import RankPool

TINY = read_model("tiny")
LLAMA = read_model("llama_13b")
GIB = 2**30


@pytest.mark.parametrize(
    ("layout", "dtype", "distributed"),
    [((2, 2, 1), "float32", False), ((1, 2, 2), "bfloat16", True), ((2, 1, 2), "bfloat16", False)],
)
def test_state_is_what_megatron_allocates(
    ranks: RankPool, layout: tuple[int, int, int], dtype: str, distributed: bool
) -> None:
    """A distributed optimizer cuts its buffer with the padding, so its ranks together hold what is planned."""
    sizes = Layout(*layout)
    found = ranks.run(
        "tests.distributed.plan_jobs:state_bytes", world=4, layout=layout, dtype=dtype, distributed=distributed
    )
    planned = [
        memory.training_state(TINY, stage, sizes, dtype=dtype, distributed_optimizer=distributed).kinds
        for stage in stages_of(TINY, sizes)
    ]
    for stage, held in found:
        assert held["weights"] == planned[stage]["weights"]
        assert held["gradients"] == planned[stage]["gradients"]
        if not distributed:
            assert held["optimizer"] == planned[stage]["optimizer"]
    together = sum(held["optimizer"] for _, held in found)
    assert together == sum(planned[stage]["optimizer"] for stage, _ in found)


def test_a_distributed_optimizer_is_shared_by_all_that_sum_gradients() -> None:
    whole, layout = stages_of(TINY, Layout())[0], Layout(dp=3, cp=2)
    parameters = TINY.parameters()
    found = memory.training_state(TINY, whole, layout, distributed_optimizer=True).kinds
    assert found == {"weights": 2 * parameters, "gradients": 4 * parameters, "optimizer": 12 * parameters / 6}
    alone = memory.training_state(TINY, whole, layout, dtype="float32", distributed_optimizer=False).kinds
    assert alone["optimizer"] == 8 * parameters


def test_experts_count_in_the_layers_that_have_them() -> None:
    experts = Experts(count=8, per_token=2, ffn_hidden_size=16, dense_layers=(0,))
    model = ModelSizes("moe", replace(TINY.arch, family="qwen3_moe", experts=experts))
    layout = Layout(pp=2)
    first = stages_of(model, layout)[0]  # a dense layer and one with experts
    counted = CountedCost(model.arch, [2, 2], bytes_each=4)
    local = memory.activations(model, first, layout, tokens=96, length=24, dtype="float32", attention="local")
    assert local / 2**20 == pytest.approx(counted.activation(0, rows=4, length=24), abs=1e-6)
    found = memory.activations(model, first, layout, tokens=96, length=24)
    heads = 8 * 32 + 4 * (4 + 2) * 8
    assert found == 96 * (2 * heads + 6 * 64 + 2 * (6 * 16 + 2 * 32))


def test_local_activations_are_those_that_the_executor_counts() -> None:
    layout, options = Layout(tp=2, pp=2), StageOptions(recompute=Recompute("selective"))
    counted = CountedCost(TINY.arch, [2, 2], tp=2, bytes_each=4, options=options)
    for s, stage in enumerate(stages_of(TINY, layout)):
        found = memory.activations(
            TINY, stage, layout, tokens=96, length=24, dtype="float32", attention="local", options=options
        )
        assert found / 2**20 == pytest.approx(counted.activation(s, rows=4, length=24), abs=1e-6)


def test_flash_activations_are_the_published_count() -> None:
    shape, layout = SHAPES["llama_13b"], Layout(tp=4, pp=4)
    stages = stages_of(LLAMA, layout)
    found = [memory.activations(LLAMA, stage, layout, tokens=4096, length=2048) for stage in stages]
    layer = layer_bytes(shape, lengths=[2048, 2048], tp=4)
    assert found[0] == 10 * layer
    padded = replace(shape, vocab=32256)  # rows of the embedding at tp 4
    assert found[-1] == 10 * layer + head_bytes(padded, tokens=4096, tp=4)
    critic = memory.activations(LLAMA.with_head("value"), stages[-1], layout, tokens=4096, length=2048)
    assert critic == 10 * layer + 4 * 5120 * 4096 / 4


def test_recomputed_layers_keep_their_inputs() -> None:
    layout = Layout(tp=4, pp=4, cp=2)
    options = StageOptions(recompute=Recompute("full"))
    found = memory.activations(LLAMA, stages_of(LLAMA, layout)[1], layout, tokens=4096, length=64, options=options)
    assert found == 10 * 2 * 5120 * 4096 / 8


def test_training_adds_up_and_grows_with_micro_batches_in_flight() -> None:
    layout = Layout(tp=2, pp=4, dp=2)
    stage = stages_of(LLAMA, layout)[3]
    one, four = (
        memory.training(LLAMA, stage, layout, tokens=2048, length=512, in_flight=count).kinds for count in (1, 4)
    )
    assert four["activations"] == 4 * one["activations"]
    assert {k: v for k, v in four.items() if k != "activations"} == {k: v for k, v in one.items() if k != "activations"}
    assert one["logits"] == 2 * 4 * 2048 * 32000 / 2
    assert one["buffers"] == 4 * 2048 * 5120 * 2 / 2


def test_generation_caches_keys_and_values_of_its_layers() -> None:
    grouped = read_model("llama_70b")
    layout = Layout(tp=4, pp=2)
    found = memory.generation(grouped, stages_of(grouped, layout)[0], layout, rows=8, length=100).kinds
    assert found["cache"] == 8 * 100 * 40 * 2 * 8 * 128 * 2 / 4
    assert found["logits"] == 0


def test_inference_holds_one_layer_at_a_time() -> None:
    layout = Layout(tp=2, pp=2)
    stage = stages_of(LLAMA, layout)[0]
    found = memory.inference(LLAMA, stage, layout, tokens=1024, length=256).kinds
    assert found["activations"] == layer_bytes(SHAPES["llama_13b"], lengths=[256] * 4, tp=2)
    assert found["weights"] == memory.weights(LLAMA, stage, layout).total
    local = memory.inference(LLAMA, stage, layout, tokens=1024, length=256, attention="local").kinds
    scores = 40 * 256 * (4 + 2) / 2  # of a token, in float32 and their cast
    assert local["activations"] > found["activations"] + 1024 * scores
    last = memory.inference(LLAMA, stages_of(LLAMA, layout)[1], layout, tokens=1024, length=256).kinds
    assert last["logits"] == 4 * 1024 * 32000 / 2


def test_what_does_not_fit_is_told_with_what_weighs_most() -> None:
    held = Memory({"weights": 3.0 * GIB, "cache": 9.0 * GIB}) + Memory({"weights": 2.0 * GIB, "logits": 1.0 * GIB})
    assert held.total == 15 * GIB
    assert held.misfit(15 * GIB) is None
    assert held.missing(12 * GIB) == 3 * GIB
    told = held.misfit(12 * GIB)
    assert told == "3.0 GiB too much: 15.0 of 12.0 GiB (cache 9.0 GiB, weights 5.0 GiB, logits 1.0 GiB)"


def test_layers_left_over_go_to_the_first_stages() -> None:
    spans = [stage.layers for stage in stages_of(LLAMA, Layout(pp=3))]
    assert [len(span) for span in spans] == [14, 13, 13]
    assert spans[-1].stop == LLAMA.layers
    assert [memory.in_flight_1f1b(s, stages=3, microbatches=2) for s in range(3)] == [2, 2, 1]

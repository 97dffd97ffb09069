"""The executor on plain torch stages in fp64: exactness first, then what happens when something breaks."""

from typing import Any

import numpy as np
import pytest

from tests.distributed.pipeline_jobs import whole_critic
from tests.distributed.pool import RankPool

JOBS = "tests.distributed.pipeline_jobs"
FAILURES = "tests.fusedrl.pipeline.failure_jobs"
UNEQUAL = [{"actor": 4, "critic": 2}, {"actor": 1, "critic": 5}]


def assert_same(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    for one, other in zip(first, second, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            if isinstance(one[key], np.ndarray):
                assert np.array_equal(one[key], other[key]), key
            else:
                assert one[key] == other[key], key


@pytest.mark.parametrize(("world", "kind"), [(2, "opposed"), (4, "opposed"), (2, "interleaved"), (2, "v")])
def test_any_order_equals_serial_bit_for_bit(ranks: RankPool, world: int, kind: str) -> None:
    serial, *others = (
        ranks.run(f"{JOBS}:run_toy", world=world, kind=kind, builder=builder, passes=UNEQUAL)
        for builder in ("serial", "greedy", "gpipe", "random1", "random2")
    )
    for other in others:
        assert_same(serial, other)


@pytest.mark.parametrize(("world", "kind"), [(2, "opposed"), (4, "opposed"), (2, "interleaved"), (2, "v")])
def test_split_backwards_equal_serial_bit_for_bit(ranks: RankPool, world: int, kind: str) -> None:
    serial, *others = (
        ranks.run(f"{JOBS}:run_toy", world=world, kind=kind, builder=builder, passes=UNEQUAL)
        for builder in ("serial", "split_greedy", "zero_bubble", "split_random")
    )
    for other in others:
        assert_same(serial, other)


@pytest.mark.parametrize(("world", "kind"), [(2, "opposed"), (4, "opposed"), (2, "v"), (4, "interleaved")])
def test_pipeline_equals_one_rank_bit_for_bit(ranks: RankPool, world: int, kind: str) -> None:
    split = ranks.run(f"{JOBS}:run_toy", world=world, kind=kind, builder="greedy", passes=UNEQUAL)
    (whole,) = ranks.run(f"{JOBS}:run_toy", world=1, kind=kind, builder="gpipe", passes=UNEQUAL, depth=world)
    merged: dict[str, Any] = {}
    for rank in split:
        for key, value in rank.items():
            if not key.endswith("sums") or value:  # metrics are known where the last stage is
                merged[key] = value
    assert_same([whole], [merged])


@pytest.mark.parametrize("builder", ["serial", "greedy", "split_random"])
def test_models_are_finished_once_nothing_of_theirs_is_left(ranks: RankPool, builder: str) -> None:
    for log in ranks.run("tests.fusedrl.pipeline.finished_jobs:finished", world=2, builder=builder):
        for name in ("actor", "critic"):
            assert log.count(f"{name} finished") == 1
            last = max(place for place, entry in enumerate(log) if entry.startswith(f"{name} at"))
            left = [entry for entry in log[last + 1 :] if entry.endswith("finished")]
            assert left[0] == f"{name} finished"
        if builder == "serial":
            assert set(log[log.index("actor finished") + 1 :]) == {"critic at", "critic finished"}


@pytest.mark.parametrize("builder", ["serial", "split_random"])
def test_model_whose_replicas_share_a_program_is_finished_at_the_end_of_the_pass(ranks: RankPool, builder: str) -> None:
    """Its reduction would hold a rank up that the other replica's rank waits for."""
    logs = ranks.run("tests.fusedrl.pipeline.finished_jobs:finished", world=4, builder=builder, kind="copies")
    for log in logs:
        assert log[-1] == "critic finished"
        assert log.count("critic finished") == log.count("actor finished") == 1
        last = max(place for place, entry in enumerate(log) if entry == "actor at")
        assert log[last + 1] == "actor finished"


def test_one_micro_batch_and_fewer_than_stages_run(ranks: RankPool) -> None:
    passes = [{"actor": 1, "critic": 1}, {"actor": 3, "critic": 1}]
    serial, fused = (
        ranks.run(f"{JOBS}:run_toy", world=4, kind="opposed", builder=builder, passes=passes)
        for builder in ("serial", "greedy")
    )
    assert_same(serial, fused)


def test_single_model_runs(ranks: RankPool) -> None:
    split = ranks.run(f"{JOBS}:run_toy", world=2, kind="single", builder="greedy", passes=[{"actor": 3}])
    assert split[1]["0/actor/sums"]["tokens"] > 0
    assert split[0]["0/actor/sums"] == {}


def test_forward_only_model_beside_a_training_one_keeps_no_graph(ranks: RankPool) -> None:
    results = ranks.run(f"{JOBS}:infer_toy", world=2, builder="greedy", counts={"actor": 4, "critic": 3})
    expected = whole_critic(stages=2, count=3)
    outputs = results[0]["outputs"]
    assert sorted(outputs) == [0, 1, 2]
    assert all(np.array_equal(outputs[m], expected[m]) for m in outputs)
    assert results[0]["modes"] == [(False, False)] * 3
    assert results[1]["outputs"] == {}
    assert all(result["no_grads"] and result["training_after"] for result in results)


def test_rank_that_raises_ends_all_ranks_and_names_the_op(ranks: RankPool) -> None:
    results = ranks.run(f"{FAILURES}:fail_toy", world=4, how="raise", timeout=3.0, failing=1)
    assert "rank 1 (column 1) at actor:F1@1: ZeroDivisionError" in results[1]["error"]
    assert ">>actor:F1@1<<" in results[1]["error"]
    for rank, result in enumerate(results):
        assert result["kind"] in ("PipelineError", "MessageTimeout"), f"rank {rank}"
        assert result["seconds"] < 10
        assert "earlier pass failed" in result["again"]
    assert "failed first: rank 1" in results[2]["error"]


def test_missing_message_times_out_naming_message_and_op(ranks: RankPool) -> None:
    results = ranks.run(f"{FAILURES}:fail_toy", world=2, how="missing", timeout=1.0, failing=0)
    late = results[1]
    assert late["kind"] == "MessageTimeout"
    assert "message actor:F" in late["error"]
    assert "from rank 0 did not come within 1 s" in late["error"]
    assert "at actor:F" in late["error"]
    assert ">>actor:F" in late["error"]
    assert late["seconds"] < 5


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("counts", "actor: 1 micro-batches given, the program has 2"),
        ("no loss", "actor: trains in the program; give a loss"),
        ("stranger", "the program runs ['actor'], work is for ['critic']"),
        ("both", "not both"),
        ("twice", "a name is used twice"),
        ("stages", "stages of rank 0: holds [], its placement says [0]"),
        ("config", "models actor and critic share a config object"),
        ("whole", "actor: the order splits its backwards, its layers compute both gradients at once"),
        ("placement", "placement (0,) in the program, (0, 0) in the model"),
        ("loss", "a loss must be a scalar"),
        ("shape", "actor:F0@0 made [1, 2, 1] torch.float64, the next stage waits for [1, 2, 6] torch.float64"),
    ],
)
def test_work_that_does_not_fit_is_refused_by_name(ranks: RankPool, case: str, text: str) -> None:
    (errors,) = ranks.run(f"{FAILURES}:refused_toy", world=1)
    assert text in errors[case]


def test_an_op_costs_little_beyond_its_stage(ranks: RankPool) -> None:
    """About 20 us on an idle core, autograd's own work included; the limit leaves room for a busy machine."""
    (seconds,) = ranks.run(f"{JOBS}:overhead_toy", world=1, count=200, repeats=5)
    assert seconds < 300e-6

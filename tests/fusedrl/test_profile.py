"""The command that measures a machine. No number is compared with a limit: machines differ, and are busy."""

from dataclasses import replace
from pathlib import Path

import pytest

from fusedrl import profile as command
from fusedrl.bench.arguments import ArgumentError
from fusedrl.plan.cluster import read_cluster
from fusedrl.plan.measured import MeasuredCosts
from fusedrl.plan.profile_file import make_table, read_profile
from fusedrl.plan.sizes import read_model
from tests.distributed.pool import RankPool
from tests.fusedrl.plan.example_profile import example

TINY = read_model("tiny")
OPTIONS = command.Options()


@pytest.mark.parametrize(("sequence_parallel", "nodes"), [(False, 1), (True, 2)])
def test_a_profile_answers_all_that_a_plan_asks_and_is_the_same_on_all_ranks(
    ranks: RankPool, tmp_path: Path, sequence_parallel: bool, nodes: int
) -> None:
    first, second = ranks.run(
        "tests.distributed.profile_jobs:measured", world=2, sequence_parallel=sequence_parallel, local=2 // nodes
    )
    assert first == second
    path = tmp_path / "profile.yaml"
    path.write_text(first)
    assert len(list(command.parts_of_whole(read_profile(path)))) == 2
    costs = MeasuredCosts(read_profile(path), read_cluster(f"cpu_{nodes}x{2 // nodes}"))
    assert costs.widths(TINY) == ((1, 2) if nodes == 1 else (1,))
    for tp in (1, 2):
        for model in (TINY, TINY.with_head("value")):
            for tokens in (16, 32):
                layer = costs.layer(model, tp=tp, tokens=tokens, length=8)
                assert layer.forward > 0
                assert layer.backward >= layer.weight_gradient > 0
                assert costs.embedding(model, tp=tp, tokens=tokens).backward > 0
                assert costs.head(model, tp=tp, tokens=tokens).backward > 0
        assert costs.head(TINY, tp=tp, tokens=16).weight_gradient > 0
        assert costs.prefill(TINY, tp=tp, tokens=16, length=8) > 0
        assert costs.decode(TINY, tp=tp, rows=2, context=8) > 0
        assert costs.decode_ends(TINY, tp=tp, rows=2) >= 0
    assert costs.message(256, across_nodes=nodes > 1) > 0
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "broadcast"):
        assert costs.collective(kind, 64, ranks=2, nodes=nodes) > 0
    held = TINY.stage_parameters(range(2), first=True, last=True, tp=2)
    assert costs.optimizer_step(held) > 0
    assert costs.beyond == ()


def test_the_parts_sum_is_told_beside_the_whole_model() -> None:
    profile = example()
    layer, ends = 256 * 64 + 1, 2 * 256  # in us, forward, at the largest sizes
    whole = make_table(
        "whole", {(256.0, 64.0): [2e-6 * (3 * layer + ends), 1e-6 * 3 * layer]}, model="tiny", tp=1, layers=3
    )
    told = list(command.parts_of_whole(replace(profile, tables=(*profile.tables, whole))))
    assert told == ["tiny, tp=1: parts add up to F 0.50, B 2.02 of the whole model"]


def test_sizes_are_taken_by_device_where_they_are_not_given() -> None:
    found = command.by_device(replace(OPTIONS, rows=(3,)), gpu=True)
    assert (found["rows"], found["tokens"], found["dtype"]) == ((3,), command.LARGE.tokens, "bfloat16")
    assert command.by_device(OPTIONS, gpu=False)["dtype"] == "float32"


@pytest.mark.parametrize("gpu", [False, True])
def test_usual_sizes_have_no_problem(gpu: bool) -> None:
    assert command.problems(replace(OPTIONS, **command.by_device(OPTIONS, gpu=gpu)), [TINY], world=2) == []


def test_problems_are_told_together() -> None:
    wrong = replace(OPTIONS, tokens=(24,), lengths=(16,), tp=(4,), layers=1, repeats=0, rows=(0,))
    found = command.problems(wrong, [TINY], world=2)
    assert len(found) == 6
    for told in (
        "rows=0",
        "repeats=0",
        "layers=1",
        "tp=4 does not divide the 2",
        "tp=4 does not divide tiny",
        "tokens=24",
    ):
        assert any(line.startswith(told) for line in found)


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("model=tinny", "model=tinny: there is no such sheet; did you mean tiny?"),
        ("dtype=float64", "dtype: 'float64' is unknown"),
        ("tp=3", "tp=3 does not divide the 1 ranks; tp=3 does not divide tiny; take (1,)"),
        ("token=64", "token: no such key; did you mean tokens?"),
    ],
)
def test_what_is_wrong_ends_with_one_line_before_anything_starts(
    argument: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["profile", argument])
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"fusedrl.profile: {told}")


def test_models_of_the_same_sizes_are_measured_once() -> None:
    twin = replace(TINY, name="twin", head="value")
    assert command.distinct([TINY, twin]) == [TINY]
    other = replace(read_model("llama_7b"), name="tiny")
    with pytest.raises(ArgumentError, match="name folders of different sizes differently"):
        command.distinct([TINY, other])


def test_widths_divide_ranks_and_model() -> None:
    assert command.widths(OPTIONS, TINY, world=6) == (1, 2)
    assert command.widths(replace(OPTIONS, tp=(2,)), TINY, world=6) == (2,)
    assert command.widths(OPTIONS, read_model("llama_33b"), world=8) == (1, 2, 4)

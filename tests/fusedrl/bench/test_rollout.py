"""The benchmark's figures are complete and agree between ranks; misses are told; arguments are checked."""

from typing import Any

import pytest

from fusedrl.bench.arguments import ArgumentError, read
from fusedrl.bench.rollout import Options, misses, table
from tests.distributed.pool import RankPool

ASKED = {
    "stage_by_stage_s",
    "streaming_s",
    "migration_s",
    "simulated_migration_s",
    "best_swept_s",
    "r_t",
    "m",
}
GOOD = {
    "stage_by_stage_s": 4.0,
    "streaming_s": 3.5,
    "migration_s": 3.0,
    "simulated_migration_s": 2.95,
    "best_swept_s": 2.98,
    "r_t": 50,
    "m": 2,
}


def test_a_run_gives_all_figures_on_all_ranks(ranks: RankPool) -> None:
    first, *others = ranks.run("tests.fusedrl.bench.stream_bench_jobs:bench", world=4)
    found = first["bimodal"]
    assert set(found) >= ASKED
    assert all(found[key] > 0 for key in ASKED if key.endswith("_s"))
    assert found["best_swept_s"] <= found["migration_s"]
    assert all(other["bimodal"] | {"idle_ratio": 0} == found | {"idle_ratio": 0} for other in others)
    assert len(found["swept_and_measured"]) in (1, 2)
    assert found["swept"] > 10


@pytest.mark.parametrize(
    ("name", "changed", "text"),
    [
        ("bimodal", {}, None),
        ("bimodal", {"stage_by_stage_s": 3.8}, "bimodal: 1.267 x stage by stage, at least 1.3 wanted"),
        ("fixed", {"stage_by_stage_s": 3.0}, None),
        ("fixed", {"stage_by_stage_s": 2.9}, "fixed: 0.967 x stage by stage, at least 0.98 wanted"),
        ("bimodal", {"simulated_migration_s": 2.7}, "bimodal: the simulator is 10.0% off, at most 7% wanted"),
        ("bimodal", {"best_swept_s": 2.8}, "bimodal: the chosen (r_t, m) is 7.1% behind the best, 3% wanted"),
    ],
)
def test_goals_that_are_not_met_are_told(name: str, changed: dict[str, float], text: str | None) -> None:
    assert misses({name: GOOD | changed}) == ([] if text is None else [text])


def test_table_sets_each_way_against_stage_by_stage() -> None:
    results: dict[str, Any] = {"fixed": GOOD, "bimodal": GOOD}
    made = table(results, title="t")
    cells = {str(column.header): next(iter(column.cells)) for column in made.columns}
    assert made.row_count == 2
    assert (cells["streaming x"], cells["migration x"], cells["(r_t, m)"]) == ("1.143", "1.333", "(50, 2)")
    assert (cells["sim. off"], cells["behind best"]) == ("-1.7%", "0.7%")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["distributions=[bimodl]"], "distributions: 'bimodl' is unknown; did you mean bimodal?"),
        (["distributions=[]"], "distributions: name at least one"),
        (["repeats=0"], "repeats: 0 is too small; at least 1"),
        (["samples=12"], "samples: 12 of an instance are no multiple of n=8"),
        (["timeout=0"], "timeout: 0 must be above 0"),
    ],
)
def test_options_out_of_range_are_refused_by_name(words: list[str], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read(Options, words)
    assert str(caught.value).startswith(text)

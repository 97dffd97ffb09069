"""Curves of small fixed files: means and spreads are those computed by hand."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from fusedrl.bench.curves import Curve, Point, as_csv, curve, markdown, metrics_of, panels, series

Values = Mapping[int, Mapping[str, float]]


def write(path: Path, values: Values) -> Path:
    path.write_text("".join(json.dumps({"step": step} | dict(found)) + "\n" for step, found in values.items()))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    score = [{step: {"score": step * seed} for step in range(1, 11)} for seed in (1.0, 2.0, 6.0)]
    for seed, found in enumerate(score):
        found |= {0: {"val/acc": 0.5}, 10: found[10] | {"val/acc": 0.6 + 0.1 * seed}}
    return [write(tmp_path / f"{seed}.jsonl", found) for seed, found in enumerate(score)]


def test_mean_least_and_greatest_over_seeds(runs: list[Path]) -> None:
    found = curve(runs, variant="ppo", metric="score")
    assert (found.variant, found.metric, found.seeds) == ("ppo", "score", 3)
    assert found.points == tuple(Point(step, 3.0 * step, 1.0 * step, 6.0 * step) for step in range(1, 11))


def test_only_steps_that_all_runs_have_count(runs: list[Path], tmp_path: Path) -> None:
    short = write(tmp_path / "short.jsonl", {2: {"score": 0.0}, 12: {"score": 0.0}})
    assert [point.step for point in curve([*runs, short], variant="ppo", metric="score").points] == [2]
    with pytest.raises(ValueError, match="val/acc: no step that all 4 runs of ppo have"):
        curve([*runs, short], variant="ppo", metric="val/acc")


def test_a_step_that_was_done_again_after_a_resume_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", {1: {"score": 1.0}, 3: {"score": 2.0}})
    again = [json.dumps({"step": step, "score": 3.0}) for step in (2, 3)]
    path.write_text(path.read_text() + "\n".join([*again, '{"step": 4, "sco']))
    assert list(series(path, "score").items()) == [(1, 1.0), (2, 3.0), (3, 3.0)]
    assert series(tmp_path / "none.jsonl", "score") == {}


def test_metrics_are_chosen_by_name_or_beginning_in_the_order_asked(runs: list[Path], tmp_path: Path) -> None:
    assert metrics_of(runs[0], ["val/", "sc"]) == ["val/acc", "score"]
    assert metrics_of(runs[0], ["loss"]) == []
    run = write(tmp_path / "run.jsonl", {1: {"kl": 0.1, "kl_coeff": 0.2}})
    assert metrics_of(run, ["kl"]) == ["kl"]
    assert metrics_of(run, ["k"]) == ["kl", "kl_coeff"]


def test_table_has_both_ends_and_steadies_what_every_step_has(runs: list[Path]) -> None:
    rows = markdown({"ppo": runs, "grpo": runs[:1]}, ["score", "val/acc"]).splitlines()[2:]
    assert rows == [
        "| ppo | score, mean of 5 steps | 3 | 9.000 (3.000 to 18.000) | 24.000 (8.000 to 48.000) |",
        "| ppo | val/acc | 3 | 0.500 (0.500 to 0.500) | 0.700 (0.600 to 0.800) |",
        "| grpo | score, mean of 5 steps | 1 | 3.000 | 8.000 |",
        "| grpo | val/acc | 1 | 0.500 | 0.600 |",
    ]


def test_csv_has_a_line_a_step() -> None:
    found = as_csv([Curve("ppo", "score", 3, (Point(1, 0.5, 0.25, 1.0), Point(2, 1 / 3, 0.0, 1.0)))])
    assert found.splitlines() == [
        "variant,metric,step,mean,min,max,seeds",
        "ppo,score,1,0.5,0.25,1,3",
        "ppo,score,2,0.333333,0,1,3",
    ]


def test_panels_go_by_metric() -> None:
    found = [Curve(variant, metric, 1, ()) for metric in ("a", "b") for variant in ("ppo", "grpo")]
    assert [(metric, [each.variant for each in of]) for metric, of in panels(found)] == [
        ("a", ["ppo", "grpo"]),
        ("b", ["ppo", "grpo"]),
    ]

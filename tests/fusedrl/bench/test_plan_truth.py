"""Arguments, files and tables; measuring itself is in test_plan_emulated.py."""

import csv
from pathlib import Path
from typing import Any

import pytest

from fusedrl.bench import plan_truth
from fusedrl.bench.plan_truth import Options, main
from fusedrl.plan.planner import Plan
from fusedrl.plan.search.space import PHASES
from tests.fusedrl.bench.scenes import plans

SMALL = ["cluster=cpu_1x2", "actor=tiny", "critic=tiny", "dtype=float32"]


def row(plan: Plan, options: Options) -> dict[str, Any]:
    both = {f"{kind}_{phase}_s": 1.0 for kind in ("predicted", "measured") for phase in PHASES}
    return {
        "plan": plan.name,
        "fused": plan.fused,
        "predicted_s": plan.seconds,
        "measured_s": 2 * plan.seconds,
        "error": -0.5,
    } | both


def test_every_plan_is_measured_written_told_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan_truth, "chosen", lambda *_, **__: plans())
    monkeypatch.setattr(plan_truth, "measure", row)
    out, plot = tmp_path / "plans.csv", tmp_path / "plans.png"
    assert main([*SMALL, f"out={out}", f"plot={plot}"]) == 0
    with out.open() as file:
        written = list(csv.DictReader(file))
    assert [each["plan"] for each in written] == ["fused", "apart", "replicas"]
    assert float(written[0]["measured_s"]) == pytest.approx(2 * plans()[0].seconds, rel=1e-5)
    assert plot.read_bytes().startswith(b"\x89PNG")
    told = capsys.readouterr()
    assert "3 plans: rank correlation 1.000, mean error 50.0%, worst 50.0%" in told.out
    assert "fused (fused)" in told.out
    assert told.err.count("measured") == 3


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("repeats=0", "repeats: 0 is too small; at least 1"),
        ("scale=0", "scale: 0 must be above 0"),
        ("clutser=h100_1x8", "clutser: no such key"),
        ("cluster=h100_4x8", "32 ranks, at most 16"),
    ],
)
def test_wrong_arguments_are_told_before_anything_starts(
    word: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan_truth, "chosen", None)
    key = word.partition("=")[0]
    assert main([*(each for each in SMALL if not each.startswith(f"{key}=")), word]) == 2
    assert told in capsys.readouterr().err

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fusedrl.bench.arguments import ArgumentError, read
from fusedrl.bench.pipeline import Options, load_problem, medians, table
from schedules.problem import Problem, ProblemError
from schedules.problem_file import save_problem
from tests.distributed.pool import RankPool
from tests.fusedrl.bench.emulation_jobs import two_models

ROOT = Path(__file__).parents[3]
DEEP = "configs/schedule/exp9.yaml"
FIGURES = ("planned_makespan_ms", "replayed_makespan_ms", "measured_makespan_ms", "planned_bubble", "measured_bubble")


def save(path: Path, problem: Problem) -> str:
    save_problem(path, problem=problem)
    return str(path)


def test_each_method_gets_its_figures_and_a_refusal_its_reason(ranks: RankPool, tmp_path: Path) -> None:
    path = save(tmp_path / "two.yaml", two_models())
    methods = ["serial", "greedy", "interleaved"]
    results, others = ranks.run(
        "tests.fusedrl.bench.emulation_jobs:bench", world=2, path=path, methods=methods, trace=str(tmp_path)
    )
    assert list(results) == methods
    assert "multiples of p" in results["interleaved"]["refused"]
    for method in ("serial", "greedy"):
        found = results[method]
        assert found == others[method] | {"solve_seconds": found["solve_seconds"]}
        assert set(FIGURES) <= set(found)
        assert found["measured_makespan_ms"] >= found["replayed_makespan_ms"] >= found["planned_makespan_ms"]
        assert found["slowest_makespan_ms"] >= found["measured_makespan_ms"]
        assert 0 < found["planned_bubble"] < found["measured_bubble"] < 1
        assert json.loads((tmp_path / f"{method}.json").read_text())["traceEvents"]
    assert results["greedy"]["planned_makespan_ms"] < results["serial"]["planned_makespan_ms"]


def test_medians_leave_the_warm_up_out() -> None:
    repeats = [{"measured_makespan_ms": ms} for ms in (900.0, 3.0, 1.0, 2.0)]
    assert medians(repeats) == {"measured_makespan_ms": 2.0}


def test_table_has_a_row_a_method_and_sets_it_against_serial() -> None:
    figures = {f"{k}_{what}": 1.0 for k in ("planned", "replayed", "measured") for what in ("makespan_ms", "bubble")}
    found: dict[str, Any] = figures | {"measured_over_replayed": 1.0}
    results = {"serial": found | {"measured_makespan_ms": 3.0}, "greedy": found, "auto": {"refused": "no"}}
    made = table(results, title="t")
    assert made.row_count == 3
    assert list(made.columns[-1].cells)[:2] == ["1.000", "3.000"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["methods=[serial,gredy]"], "methods: 'gredy' is unknown; did you mean greedy?"),
        (["methods=[]"], "methods: name each once, and at least one"),
        (["methods=[serial,serial]"], "methods: name each once"),
        (["repeats=1"], "repeats: 1 is too small; at least 2"),
        (["unit_ms=0"], "unit_ms: 0 must be above 0"),
        (["payload=2"], "payload: 2 is too small"),
    ],
)
def test_options_out_of_range_are_refused_by_name(words: list[str], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read(Options, [f"problem={DEEP}", *words])
    assert str(caught.value).startswith(text)


def test_a_job_of_other_ranks_is_told_what_to_start_and_folds_when_asked() -> None:
    options = Options(ROOT / DEEP)
    with pytest.raises(ProblemError, match=r"16 ranks, the job has 8.*nproc-per-node 16, or add scale=true.*onto 8"):
        load_problem(options, world=8)
    with pytest.raises(ProblemError, match=r"has 6; start torchrun --nproc-per-node 16$"):
        load_problem(options, world=6)
    with pytest.raises(ProblemError, match="cannot be folded to 6"):
        load_problem(Options(ROOT / DEEP, scale=True), world=6)
    assert load_problem(Options(ROOT / DEEP, scale=True), world=8).ranks == 8


def test_command_writes_a_file_of_methods_and_refuses_in_one_line(tmp_path: Path) -> None:
    problem = save(tmp_path / "two.yaml", two_models(1))
    good = ["methods=[serial]", "unit_ms=0.2", "repeats=2", f"out={tmp_path / 'out.json'}"]
    done, refused = (
        subprocess.run(
            [sys.executable, "-m", "fusedrl.bench.pipeline", f"problem={problem}", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            env={k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")},
        )
        for words in (good, ["unit=3"])
    )
    assert done.returncode == 0, done.stderr
    assert "serial" in done.stdout
    assert set(FIGURES) <= set(json.loads((tmp_path / "out.json").read_text())["serial"])
    assert refused.returncode == 2
    assert refused.stderr == "fusedrl.bench.pipeline: unit: no such key; did you mean unit_ms?\n"

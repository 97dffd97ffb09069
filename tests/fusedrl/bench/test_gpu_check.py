"""The whole check as a user starts it, on the CPU with tiny sizes: its logic, no GPU result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusedrl.bench import gpu_check
from fusedrl.bench.checks import Failed, Skipped
from fusedrl.bench.gpu_check import Options, check_two_ranks
from schedules.problem import Problem

ROOT = Path(__file__).resolve().parents[3]


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FUSEDRL_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = ["bash", str(ROOT / "launch/gpu_check.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_it_runs_on_the_cpu_and_says_that_this_is_no_gpu_result(tmp_path: Path) -> None:
    run = start(f"out={tmp_path / 'found'}", "device=cpu")
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith("no GPU result: this ran on the CPU with tiny sizes\n")
    report = json.loads((tmp_path / "found/report.json").read_text())
    assert report["device"] == "CPU, tiny sizes: no GPU result"
    assert {each["name"]: each["status"] for each in report["checks"]} == {
        "patches": "SKIP",
        "bf16_step": "PASS",
        "packed_rows": "PASS",
        "law": "PASS",
        "law_two_ranks": "SKIP",
        "stage_times": "PASS",
        "memory": "PASS",
    }
    assert Problem.load(tmp_path / "found/cost_profile.yaml").model("actor").microbatches == 3


def test_without_a_gpu_it_ends_with_one_line() -> None:
    run = start()
    assert run.returncode == 2
    assert run.stderr.startswith("fusedrl.bench.gpu_check: device=cuda: torch ")
    assert run.stderr.count("\n") == 1


def test_two_ranks_need_two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(Skipped, match="NCCL takes one rank a GPU"):
        check_two_ranks(Options())


def test_two_ranks_that_differ_fail_with_what_they_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def job(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, stdout="", stderr="noise\nrank 1: fused differs from serial in 1\n")

    monkeypatch.setattr(gpu_check.subprocess, "run", job)
    with pytest.raises(Failed, match="two ranks ended with 1: rank 1: fused differs from serial"):
        check_two_ranks(Options(device="cpu", ranks=2))

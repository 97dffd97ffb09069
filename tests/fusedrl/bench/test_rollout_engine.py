"""The benchmark runs and reports every figure it promises."""

import json
import subprocess
import sys

import pytest


def test_reports_speeds_and_shares():
    command = [sys.executable, "-m", "fusedrl.bench.rollout_engine", "--json"]
    small = ["--layers", "1", "--hidden", "32", "--batch", "4", "--prompt", "3", "--new", "2", "--repeats", "1"]
    done = subprocess.run([*command, *small], capture_output=True, text=True, timeout=120, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    for name in ("equal", "mixed"):
        assert result[name]["engine_tokens_s"] > 0
        assert result[name]["hugging_face_tokens_s"] > 0
    shares = {name: share for name, share in result["time_share"].items() if name != "seconds"}
    assert sum(shares.values()) == pytest.approx(1)
    assert all(0 <= share <= 1 for share in shares.values())

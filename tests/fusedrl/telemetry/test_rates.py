"""Speed has verl's names and units."""

from pathlib import Path

import pytest

from fusedrl.telemetry.rates import memory, rates

TIMING = {"timing_s/step": 4.0, "timing_s/gen": 2.0, "timing_s/update_fused": 1.0}


def test_rates_of_a_step() -> None:
    assert rates(TIMING, tokens=1000, response_tokens=400, ranks=4) == {
        "perf/total_num_tokens": 1000.0,
        "perf/time_per_step": 4.0,
        "perf/throughput": 62.5,
        "timing_per_token_ms/gen": 5.0,
        "timing_per_token_ms/update_fused": 1.0,
    }


def test_a_step_without_responses_divides_by_nothing() -> None:
    assert "timing_per_token_ms/gen" not in rates(TIMING, tokens=10, response_tokens=0, ranks=1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's own figure")
def test_memory_is_the_peak_in_gigabytes() -> None:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    assert memory()["perf/max_cpu_memory_gb"] == pytest.approx(int(line.split()[1]) * 1024 / 1e9, rel=0.05)

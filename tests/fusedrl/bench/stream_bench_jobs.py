"""The benchmark of streams, cut down to the shortest runs."""

from typing import Any

from fusedrl.bench import rollout
from fusedrl.bench.emulated import sharpen_sleep
from fusedrl.stream.costs import DecodeCurve, StreamCosts

QUICK = StreamCosts(
    decode=DecodeCurve.with_knee(base_ms=1.0, row_ms=0.01, knee=32, beyond_ms=0.1),
    prefill_ms=0.01,
    infer_ms=dict.fromkeys(rollout.TASKS, 0.02),
    max_rows=32,
    score_ms=0.1,
)


def bench() -> dict[str, Any]:
    sharpen_sleep()
    rollout.COSTS = QUICK
    rollout.CALIBRATIONS = 1
    options = rollout.Options(distributions=("bimodal",), samples=16, n=4, median=4, prompt=4, repeats=1, shortlist=1)
    return rollout.run(options, out=None)

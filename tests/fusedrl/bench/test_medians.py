import json
from pathlib import Path

import pytest

from fusedrl.bench.medians import medians


def test_medians_leave_the_warm_up_and_other_metrics_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    values = {0: 99.0, 1: 90.0, 2: 80.0, 3: 1.0, 4: 5.0, 5: 2.0}
    lines = [{"step": step, "timing_s/gen": value, "actor/lr": 1.0} for step, value in values.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert medians(path) == {"timing_s/gen": 2.0}
    assert medians(path, names=["actor/"]) == {"actor/lr": 1.0}
    path.write_text(json.dumps(lines[1]) + "\n")
    with pytest.raises(ValueError, match="no step after the first 2"):
        medians(path)

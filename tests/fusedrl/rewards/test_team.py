"""A team's results are those of one runner, in the samples' order."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardSample
from fusedrl.rewards.team import RunnerTeam

FUNCTION = "def compute_score(data_source, solution_str, *_, **__):\n    return float(solution_str)\n"


@pytest.mark.parametrize("count", [0, 1, 5])
def test_scores_come_in_the_samples_order_from_all_runners(tmp_path: Path, count: int) -> None:
    (tmp_path / "reward.py").write_text(FUNCTION)
    samples: Sequence[RewardSample] = [RewardSample(str(i), "test", str(10 * i)) for i in range(count)]
    with ExitStack() as closing:
        runners = [closing.enter_context(RewardRunner(tmp_path / "reward.py", workers=1)) for _ in range(2)]
        found = RunnerTeam(runners).score(samples)
        assert [(each.sample_id, each.score) for each in found] == [(str(i), 10.0 * i) for i in range(count)]
        assert [runner.totals["ok"] for runner in runners] == [(count + 1) // 2, count // 2]

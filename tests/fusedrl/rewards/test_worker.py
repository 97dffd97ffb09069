from pathlib import Path

from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardSample

SIGNALLED = """
import os, signal, subprocess, sys
ENDS = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    os.kill(os.getpid(), getattr(signal, solution_str))
    return float(subprocess.run([sys.executable, "-S", "-c", ENDS]).returncode)
"""


def test_a_job_s_signals_cost_no_score_and_still_end_programs_of_the_user_s_code(tmp_path: Path) -> None:
    function = tmp_path / "signalled.py"
    function.write_text(SIGNALLED)
    samples = [RewardSample(name, "source", name, None, None) for name in ("SIGUSR1", "SIGTERM")]
    with RewardRunner(function, workers=1, timeout=60.0) as runner:
        results = runner.score(samples)
    assert [(result.status, result.score) for result in results] == [("ok", -15.0)] * 2

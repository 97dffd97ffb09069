import pytest

from fusedrl.rewards.function import VERIFIER
from fusedrl.rewards.sample import RewardResult
from fusedrl.trainers.scoring import Verdict, function_path
from tests.fusedrl.config.conftest import changed, ppo


def test_a_verdict_has_what_the_function_told_beside_the_score() -> None:
    plain, full = RewardResult("0", 0.5), RewardResult("0", 0.5, extra={"acc": 1.0, "pred": 7, "other": "x"})
    assert Verdict.of(plain) == Verdict(0.5, acc=None, pred=None, failure=None)
    assert Verdict.of(full) == Verdict(0.5, acc=1.0, pred="7", failure=None)
    failed = Verdict.of(RewardResult("0", -1.0, "timeout", "no answer in 1 s"))
    assert failed == Verdict(-1.0, failure="timeout: no answer in 1 s")


@pytest.mark.parametrize(
    ("verdict", "found"),
    [(Verdict(0.5, acc=1.0), 1.0), (Verdict(0.5), 0.5), (Verdict(0.5, failure="died"), 0.0)],
)
def test_a_failed_call_counts_as_wrong(verdict: Verdict, found: float) -> None:
    assert verdict.accuracy == found


def test_the_user_s_function_comes_before_the_task_s_verifier() -> None:
    files = changed(ppo(), {"data.task.name": None})
    assert function_path(ppo()) == str(VERIFIER)
    assert function_path(changed(ppo(), {"custom_reward_function.path": "mine.py"})) == "mine.py"
    assert function_path(files) is None

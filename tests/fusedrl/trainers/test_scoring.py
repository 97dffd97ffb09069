import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fusedrl.parallel.agreed import AgreedError
from fusedrl.rewards.function import VERIFIER, RewardFunctionError
from fusedrl.rewards.sample import RewardResult, RewardSample
from fusedrl.trainers import scoring
from fusedrl.trainers.scoring import FAILED, Scores, Verdict, function_path, judge, require_answers, score
from tests.fusedrl.config.conftest import changed, ppo


def test_a_verdict_has_what_the_function_told_beside_the_score() -> None:
    plain, full = RewardResult("0", 0.5), RewardResult("0", 0.5, extra={"acc": 1.0, "pred": 7, "other": "x"})
    assert Verdict.of(plain) == Verdict(0.5, acc=None, pred=None, failure=None)
    assert Verdict.of(full) == Verdict(0.5, acc=1.0, pred="7", failure=None)
    weighted = RewardResult("0", 0.7, extra={"part/right": 0.5, "part/short": 1.0, "seen": 1})
    assert Verdict.of(weighted) == Verdict(0.7, parts={"right": 0.5, "short": 1.0})
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


class Patient:
    """A runner that answers once the others have heard twice that it is at work."""

    def __init__(self) -> None:
        self.heard_twice = threading.Event()
        self.told: list[Any] = []

    def score(self, samples: Any) -> list[RewardResult]:
        assert self.heard_twice.wait(60)
        return [RewardResult(sample.sample_id, 0.5, extra={"acc": 1.0}) for sample in samples]

    def hear(self, value: Any) -> Any:
        self.told.append(value)
        if self.told.count([]) == 2:
            self.heard_twice.set()
        return value


@pytest.mark.parametrize("full", [True, False])
def test_the_others_hear_that_a_long_scoring_goes_on(monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    runner: Any = Patient()
    monkeypatch.setattr(scoring, "broadcast_object", runner.hear)
    monkeypatch.setattr(scoring, "leads", lambda: True)
    monkeypatch.setattr(scoring, "PULSE_S", 0.001)
    samples = [RewardSample("0", "a", "x"), RewardSample("1", "a", "y")]
    if full:
        assert judge(runner, samples) == [Verdict(0.5, acc=1.0)] * 2
    else:
        assert score(runner, samples).score_B.tolist() == [0.5, 0.5]
    assert runner.told[:2] == [[], []]
    verdict = {"score": 0.5, "acc": 1.0, "pred": None, "failure": None, "parts": {}}
    scores = {"score": [0.5, 0.5], "metrics": {"reward/failed_calls": 0.0}}
    assert runner.told[-1] == [[verdict] * 2 if full else scores]


def test_another_rank_waits_for_the_verdicts_and_an_error_of_the_runner_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict = {"score": 1.0, "acc": None, "pred": "7", "failure": None, "parts": {"right": 1.0}}
    heard = iter([[], [], [[verdict]], [None]])
    monkeypatch.setattr(scoring, "broadcast_object", lambda value: next(heard))
    monkeypatch.setattr(scoring, "leads", lambda: False)
    assert judge(None, []) == [Verdict(1.0, pred="7", parts={"right": 1.0})]
    assert judge(None, []) is None  # there is no function
    monkeypatch.setattr(scoring, "broadcast_object", lambda value: [None, "KeyError: 'x'"])
    with pytest.raises(AgreedError, match="KeyError: 'x'") as told:  # it failed on the first rank, which tells
        score(None, [])
    assert not told.value.tells

    def broken(samples: Any) -> Any:
        raise RuntimeError("the reward runner is closed")

    monkeypatch.setattr(scoring, "broadcast_object", lambda value: value)
    monkeypatch.setattr(scoring, "leads", lambda: True)
    for ask in (judge, score):
        with pytest.raises(RuntimeError, match="the reward runner is closed"):
            ask(SimpleNamespace(score=broken), [])  # type: ignore[operator]


def test_workers_that_cannot_be_started_again_are_told_once_and_all_ranks_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(samples: Any) -> Any:
        raise RewardFunctionError("reward.py is gone")

    told: list[Any] = []
    monkeypatch.setattr(scoring, "broadcast_object", told.append)
    monkeypatch.setattr(scoring, "leads", lambda: True)
    with pytest.raises(AgreedError, match=r"^reward\.py is gone$") as raised:
        score(SimpleNamespace(score=broken), [])  # type: ignore[arg-type]
    assert raised.value.tells
    assert told[-1] == [None, "RewardFunctionError: reward.py is gone"]


@pytest.mark.parametrize(
    ("path", "failed", "ends"),
    [("http://a:1/x", 2, True), ("http://a:1/x", 1, False), ("reward.py", 2, False), (None, 0, False)],
)
def test_a_server_that_answers_nothing_is_down_but_a_function_may_fail_on_every_sample(
    monkeypatch: pytest.MonkeyPatch, path: str | None, failed: int, ends: bool
) -> None:
    monkeypatch.setattr(scoring, "leads", lambda: True)
    scores = Scores(torch.zeros(2), {FAILED: float(failed)})
    if not ends:
        return require_answers(scores, step=3, path=path)
    with pytest.raises(AgreedError, match="http://a:1/x: the server answered none of the 2 calls of step 3"):
        require_answers(scores, step=3, path=path)

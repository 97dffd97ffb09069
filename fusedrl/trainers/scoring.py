"""Scores of responses: the reward function's, and a reward model's on top where there is one.

The function runs in worker processes of rank 0 alone; every rank joins the broadcast of the scores. A call that hangs,
throws or gives no number costs its own sample: it gets the configured score, and is counted.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from queue import Empty, Queue
from typing import Any

import torch
from torch import Tensor

from fusedrl.config.schema import CustomRewardFunctionConfig, EvaluateConfig, PPOConfig
from fusedrl.parallel.agreed import AgreedError
from fusedrl.parallel.comm import broadcast_object
from fusedrl.parallel.team import leads
from fusedrl.rewards.combine import part_means, parts_of
from fusedrl.rewards.function import KEY, VERIFIER, RewardFunctionError
from fusedrl.rewards.remote import is_url
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardResult, RewardSample
from fusedrl.rewards.team import RunnerTeam
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.prompting import PromptRow

FAILED = "reward/failed_calls"
logger = logging.getLogger(__name__)
PULSE_S = 5.0  # below any time that ranks wait for each other


@dataclass(frozen=True, eq=False)
class Scores:
    """score_B fp32 [B]; metrics of the function's calls."""

    score_B: Tensor
    metrics: dict[str, float]


@dataclass(frozen=True)
class Verdict:
    """What the reward function says of one response; acc and pred where the dict that it returns has them.

    parts: of several weighted functions, each one's own score. failure: why the call gave no score of its own; `score`
    is the configured one then.
    """

    score: float
    acc: float | None = None
    pred: str | None = None  # the answer that the function read out of the response, verl's name
    failure: str | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def of(result: RewardResult) -> "Verdict":
        acc, pred = result.extra.get("acc"), result.extra.get("pred")
        failure = None if result.ok else f"{result.status}: {result.detail}"
        return Verdict(result.score, acc, None if pred is None else str(pred), failure, parts_of(result.extra))

    @property
    def accuracy(self) -> float:
        """Among responses whose function tells acc: a failed call is no right response, whatever its score is."""
        if self.acc is not None:
            return self.acc
        return self.score if self.failure is None else 0.0


def function_path(config: PPOConfig | EvaluateConfig) -> str | None:
    """The file of the reward function: the user's, or the verifier of a generated task; None without one."""
    return config.custom_reward_function.path or (str(VERIFIER) if config.data.task.name else None)


def open_runner(path: str, function: CustomRewardFunctionConfig, *, workers: int) -> RewardRunner:
    """Its worker processes; on rank 0 alone. Whoever opens them closes them."""
    options: dict[str, Any] = {"timeout": function.timeout_s, "default_score": function.default_score}
    if path == function.path:
        options |= {"weights": function.weights, "retries": function.retries}
    return RewardRunner(path, name=function.name, workers=workers, **options)


def reward_samples(
    rows: Sequence[PromptRow], completions: Sequence[Completion], *, decode: Callable[[Sequence[int]], str]
) -> list[RewardSample]:
    """What the reward function is asked: completions of each row are neighbours, in the rows' order."""
    each = len(completions) // max(len(rows), 1)
    return [
        reward_sample(rows[index // each], sample_id=completion.sample_id, text=decode(completion.tokens))
        for index, completion in enumerate(completions)
    ]


def reward_sample(row: PromptRow, *, sample_id: int, text: str) -> RewardSample:
    """What the reward function is asked about one response."""
    return RewardSample(
        sample_id=str(sample_id),
        data_source=row.data_source,
        solution_str=text,
        ground_truth=row.ground_truth,
        extra_info=dict(row.extra_info),
    )


def score(runner: RewardRunner | RunnerTeam | None, samples: Sequence[RewardSample]) -> Scores:
    """The reward function's scores, on every rank; zeros without a function. A collective of all ranks.

    `runner` lives on rank 0; what other ranks pass does not count.
    """

    def make() -> dict[str, Any]:
        found = [RewardResult(each.sample_id, 0.0) for each in samples] if runner is None else runner.score(samples)
        return {"score": [result.score for result in found], "metrics": call_metrics(found)}

    told = _from_rank_0(make)
    return Scores(torch.tensor(told["score"], dtype=torch.float32), told["metrics"])


def require_answers(scores: Scores, *, step: int, path: str | None) -> None:
    """Raises AgreedError, on all ranks alike, where a reward server answered no call of a step: it is down, and scores
    that stand for its answers are nothing to learn from. path: of the function, an address where it is a server."""
    if is_url(path) and scores.metrics[FAILED] >= len(scores.score_B):
        raise AgreedError(
            f"{KEY}.path={path}: the server answered none of the {len(scores.score_B)} calls of step {step}; the "
            "reasons are above. Nothing of that step was trained on: start the server, then the same command goes on",
            tells=leads(),
        )


def call_metrics(results: Sequence[RewardResult]) -> dict[str, float]:
    """Failed calls, and the mean of each part of a weighted function."""
    failed = sum(not result.ok for result in results)
    return {FAILED: float(failed), **part_means([result.extra for result in results])}


def judge(runner: RewardRunner | RunnerTeam | None, samples: Sequence[RewardSample]) -> list[Verdict] | None:
    """The same calls in full, for validation and evaluation; None without a function. A collective of all ranks."""

    def make() -> list[dict[str, Any]] | None:
        return None if runner is None else [asdict(Verdict.of(result)) for result in runner.score(samples)]

    found = _from_rank_0(make)
    return None if found is None else [Verdict(**each) for each in found]


def _from_rank_0(make: Callable[[], Any]) -> Any:
    """What rank 0 makes, plain values, on every rank. A collective of all ranks.

    However long it takes: the others hear each PULSE_S seconds that it goes on, and do not give rank 0 up.
    """
    if leads():
        return _announced(make)
    while not (heard := broadcast_object(None)):
        pass
    if len(heard) == 2:
        raise AgreedError(heard[1], tells=False)
    return heard[0]


def _announced(make: Callable[[], Any]) -> Any:
    """Rank 0's part: wait and say so, then tell."""
    answer: Queue[tuple[Any, BaseException | None]] = Queue()
    threading.Thread(target=_answer, args=(make, answer), daemon=True).start()
    while True:
        try:
            found, error = answer.get(timeout=PULSE_S)
            break
        except Empty:
            broadcast_object([])
    if error is not None:
        broadcast_object([None, f"{type(error).__name__}: {error}"])
        if not isinstance(error, RewardFunctionError):  # a defect: where it is helps, too
            logger.error("scoring failed", exc_info=error)
        raise AgreedError(str(error), tells=True) from error
    broadcast_object([found])
    return found


def _answer(make: Callable[[], Any], answer: "Queue[tuple[Any, BaseException | None]]") -> None:
    try:
        answer.put((make(), None))
    except BaseException as error:
        answer.put((None, error))

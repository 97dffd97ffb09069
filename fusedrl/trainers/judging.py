"""n responses to each prompt and what the reward function says of them: PPO's validation and evaluate alike.

rows -> generator -> reward function -> Judged -> figures (figures.py), samples to look at (sample_table.py)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fusedrl.config.schema import GenerationConfig, ValidationSamplingConfig
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.team import RunnerTeam
from fusedrl.rollout.requests import Completion
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.trainers.figures import Figure, figures
from fusedrl.trainers.generation import Generator
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.scoring import Verdict, judge, reward_samples

LENGTH = "val-aux/response_length"


@dataclass(frozen=True, eq=False)
class Judged:
    """completions: n of each row, neighbours; verdicts: one each, None without a reward function."""

    rows: Sequence[PromptRow]
    n: int
    completions: Sequence[Completion]
    verdicts: Sequence[Verdict] | None

    def figures(self, *, right_at: float | None = None, ks: Sequence[int] = ()) -> dict[str, Figure]:
        """By verl's names; none without a reward function."""
        if self.verdicts is None:
            return {}
        return figures(self.rows, self.verdicts, n=self.n, right_at=right_at, ks=ks)

    def lengths(self) -> dict[str, float]:
        """Of the responses, in tokens; clip_ratio is the share that came to no end."""
        lengths = [len(completion.tokens) for completion in self.completions]
        cut = sum(completion.finish_reason == "length" for completion in self.completions)
        return {
            f"{LENGTH}/mean": sum(lengths) / len(lengths),
            f"{LENGTH}/max": float(max(lengths)),
            f"{LENGTH}/min": float(min(lengths)),
            f"{LENGTH}/clip_ratio": cut / len(lengths),
        }

    @property
    def failed_calls(self) -> int:
        return sum(verdict.failure is not None for verdict in self.verdicts or ())


def respond(
    generator: Generator,
    rows: Sequence[PromptRow],
    *,
    n: int,
    params: SamplingParams,
    runner: RewardRunner | RunnerTeam | None,
    decode: Callable[[Sequence[int]], str],
    told: Callable[[Sequence[Completion]], None] = lambda finished: None,
) -> Judged:
    """Generate and judge, the same on every rank; runner: on rank 0; told: hears of responses as they finish. A
    collective of all ranks."""
    prompts = {index: row.tokens for index, row in enumerate(rows)}
    finished: list[Completion] = []
    for part in generator.flow(prompts, n=n, params=params):
        finished += part
        told(part)
    completions = sorted(finished, key=lambda each: each.sample_id)
    return Judged(rows, n, completions, judge(runner, reward_samples(rows, completions, decode=decode)))


def temperature_of(sampling: GenerationConfig | ValidationSamplingConfig) -> float:
    """do_sample=false takes the likeliest token, whatever the temperature."""
    return 0.0 if sampling.do_sample is False else sampling.temperature


def sample_lines(judged: Judged, *, decode: Callable[[Sequence[int]], str]) -> list[Mapping[str, object]]:
    """Plain values of each response, in the rows' order."""
    return [
        {
            "index": index // judged.n,
            "sample": index % judged.n,
            "prompt": decode(completion.prompt),
            "response": decode(completion.tokens),
            "ground_truth": judged.rows[index // judged.n].ground_truth,
            **({} if judged.verdicts is None else _said(judged.verdicts[index])),
            "length": len(completion.tokens),
            "finish_reason": completion.finish_reason,
        }
        for index, completion in enumerate(judged.completions)
    ]


def _said(verdict: Verdict) -> dict[str, object]:
    """What the function left out is left out."""
    parts = {f"reward/{name}": value for name, value in verdict.parts.items()}
    told = {"score": verdict.score, "acc": verdict.acc, "pred": verdict.pred, "failure": verdict.failure, **parts}
    return {name: value for name, value in told.items() if value is not None}

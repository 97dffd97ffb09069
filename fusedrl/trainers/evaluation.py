"""An evaluation: n responses to each prompt, judged by the reward function, told with intervals.

    prompts -> responses -> verdicts -> evaluation.json, samples.jsonl, samples.html, and a table on the console

PPO's validation does the same by the same functions (judging.py, figures.py), on the model that it trains.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from fusedrl.checkpoint.atomic import write_file
from fusedrl.config.schema import EvaluateConfig, GenerationConfig, PromptDataConfig, RunConfig
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.parallel.team import leads
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rollout.requests import Completion
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.trainers.confidence import Interval, interval
from fusedrl.trainers.figures import CORE, Figure
from fusedrl.trainers.generation import Generator
from fusedrl.trainers.judging import Judged, respond, sample_lines, temperature_of
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.sample_table import write_samples

STEP = 0  # the random numbers of validation before training: the same seed and prompts draw the same responses


@dataclass(frozen=True)
class Told:
    """A figure as it is told."""

    name: str
    value: float
    interval: Interval | None
    prompts: int

    def to_dict(self) -> dict[str, object]:
        ends = {} if self.interval is None else {"low": self.interval.low, "high": self.interval.high}
        kind = None if self.interval is None else self.interval.kind
        return {"value": self.value, **ends, "interval": kind, "prompts": self.prompts}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation on this rank; runner: on rank 0."""

    config: EvaluateConfig
    tokenizer: Tokenizer
    rows: Sequence[PromptRow]
    too_long: int
    generator: Generator
    runner: RewardRunner | None

    def run(self, *, told: Callable[[Sequence[Completion]], None] = lambda finished: None) -> list[Told]:
        """Responds, judges and writes; the figures. told: hears of responses as they finish. A collective of all
        ranks."""
        config, began = self.config, perf_counter()
        params = sampling_params(config.rollout, config.data, config.trainer, self.tokenizer)
        decode = self.tokenizer.decode
        judged = respond(
            self.generator, self.rows, n=config.rollout.n, params=params, runner=self.runner, decode=decode, told=told
        )
        found = self.tell(judged.figures(right_at=config.evaluation.right_at, ks=config.evaluation.k))
        if leads():
            self.save(judged, found, seconds=perf_counter() - began)
        return found

    def tell(self, figures: Mapping[str, Figure]) -> list[Told]:
        """With intervals; what counts comes first."""
        asked = self.config.evaluation
        draws, seed = asked.bootstrap_draws, self.config.trainer.seed
        options: dict[str, Any] = {"confidence": asked.confidence, "draws": draws, "seed": seed}
        return [
            Told(
                name,
                figure.value,
                interval(figure.per_prompt, **options, may_share=figure.may_share),
                len(figure.per_prompt),
            )
            for name, figure in sorted(figures.items(), key=lambda item: not item[0].startswith(CORE))
        ]

    def save(self, judged: Judged, told: Sequence[Told], *, seconds: float) -> None:
        """All files; evaluation.json last, so where it is the others are whole."""
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        write_samples(folder / "samples", sample_lines(judged, decode=self.tokenizer.decode))
        report = self._report(judged, seconds=seconds) | {"metrics": {each.name: each.to_dict() for each in told}}
        write_file(folder / "evaluation.json", json.dumps(report, indent=2, allow_nan=False) + "\n")

    def _report(self, judged: Judged, *, seconds: float) -> dict[str, object]:
        config, rollout = self.config, self.config.rollout
        return {
            "model": config.model.path,
            "prompts": len(self.rows),
            "too_long": self.too_long,
            "n": rollout.n,
            **drawn_by(rollout, config.data, config.trainer),
            "confidence": config.evaluation.confidence,
            "failed_calls": judged.failed_calls,
            "lengths": judged.lengths(),
            "seconds": round(seconds, 3),
        }

    @property
    def folder(self) -> Path:
        return Path(self.config.trainer.default_local_dir)


def sampling_params(
    rollout: GenerationConfig, data: PromptDataConfig, run: RunConfig, tokenizer: Tokenizer
) -> SamplingParams:
    return SamplingParams(
        temperature=temperature_of(rollout),
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        max_tokens=data.max_response_length,
        stop_token_ids=tokenizer.stop_token_ids,
        seed=run.seed,
        step=STEP,
    )


def drawn_by(rollout: GenerationConfig, data: PromptDataConfig, run: RunConfig) -> dict[str, object]:
    """What of the configuration the tokens depend on, besides model and prompts; for a record."""
    return {
        "temperature": temperature_of(rollout),
        "top_p": rollout.top_p,
        "top_k": rollout.top_k,
        "max_response_length": data.max_response_length,
        "seed": run.seed,
    }


def figure_lines(told: Sequence[Told], *, confidence: float) -> list[str]:
    """The console's table."""
    width = max((len(each.name) for each in told), default=0)
    return [f"{each.name:{width}}  {each.value:8.4f}  {_ends(each, confidence=confidence)}" for each in told]


def _ends(told: Told, *, confidence: float) -> str:
    if told.interval is None:
        return f"({told.prompts} prompt: no interval)"
    low, high, kind = told.interval.low, told.interval.high, told.interval.kind
    return f"[{low:.4f}, {high:.4f}]  {confidence:.0%} {kind}, {told.prompts} prompts"

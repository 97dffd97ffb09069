"""All keys of `-m fusedrl.evaluate`."""

from dataclasses import dataclass

from fusedrl.config.schema.critic import CustomRewardFunctionConfig
from fusedrl.config.schema.data import EvaluateDataConfig
from fusedrl.config.schema.fields import group, key
from fusedrl.config.schema.generation import EvaluationSamplingConfig, GeneratingModelConfig, RunConfig


@dataclass(frozen=True)
class FiguresConfig:
    k: list[int] = key([], help="k of pass@k and best@k, n at most; none: powers of two and rollout.n", at_least=1)
    right_at: float | None = key(
        None, help="Least acc (or score) of a right response, for pass@k; null: 1 of acc, no pass@k of a score alone"
    )
    confidence: float = key(0.95, help="Share of such intervals that hold the value over all prompts", above=0, below=1)
    bootstrap_draws: int = key(2000, help="Draws of prompts behind a bootstrap interval", at_least=1)


@dataclass(frozen=True)
class EvaluateConfig:
    model: GeneratingModelConfig = group(GeneratingModelConfig, help="The model to evaluate")
    rollout: EvaluationSamplingConfig = group(EvaluationSamplingConfig, help="Generation")
    custom_reward_function: CustomRewardFunctionConfig = group(
        CustomRewardFunctionConfig, help="A reward function of your own"
    )
    data: EvaluateDataConfig = group(EvaluateDataConfig, help="Prompts")
    evaluation: FiguresConfig = group(FiguresConfig, help="What is told of the scores")
    trainer: RunConfig = group(RunConfig, help="The run")

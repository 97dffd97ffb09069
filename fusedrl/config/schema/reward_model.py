"""All keys of `-m fusedrl.reward_model`, which trains a reward model; critic.py has those by which PPO uses one."""

from dataclasses import dataclass

from fusedrl.config.schema.data import RMDataConfig
from fusedrl.config.schema.fields import group, key
from fusedrl.config.schema.one_model import OneModelConfig, StartModelConfig


@dataclass(frozen=True)
class RMModelConfig(StartModelConfig):
    path: str | None = key(
        None,
        help="Hugging Face folder to start from, a language model (the head of one output is new) or a reward model; "
        "null: a new model",
    )


@dataclass(frozen=True)
class RMLossConfig:
    """-log sigmoid(chosen - rejected - margin), and TRL's term that keeps rewards near zero."""

    center_rewards_coefficient: float = key(
        0.0, help="Weight of the mean of (chosen + rejected)^2, which keeps rewards near 0", at_least=0
    )


@dataclass(frozen=True)
class RMConfig(OneModelConfig):
    model: RMModelConfig = group(RMModelConfig, help="The model to train")
    data: RMDataConfig = group(RMDataConfig, help="Pairs of a chosen and a rejected response")
    loss: RMLossConfig = group(RMLossConfig, help="The loss: Bradley-Terry's, less the margin of a row")

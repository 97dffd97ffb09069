"""The typed schemas: every key, its type, default, help and limits. `SCHEMAS` maps a command to its schema.

Names are verl's where it has one. One trap: verl counts ppo_mini_batch_size in prompts, here it counts samples.
"""

from fusedrl.config.schema.algorithm import AlgorithmConfig, KLControlConfig
from fusedrl.config.schema.critic import CriticConfig, CustomRewardFunctionConfig, RewardModelConfig
from fusedrl.config.schema.data import BaseDataConfig, PPODataConfig, SFTDataConfig, TaskConfig
from fusedrl.config.schema.fields import REQUIRED, Limits
from fusedrl.config.schema.parallel import MegatronConfig, OptimConfig
from fusedrl.config.schema.policy import (
    ActorConfig,
    ActorRolloutRefConfig,
    ModelConfig,
    RefConfig,
    RolloutConfig,
    ValidationSamplingConfig,
)
from fusedrl.config.schema.ppo import PPOConfig
from fusedrl.config.schema.schedule import CostConfig, ScheduleConfig
from fusedrl.config.schema.sft import NewModelConfig, SFTConfig, SFTModelConfig
from fusedrl.config.schema.trainer import BaseTrainerConfig, PPOTrainerConfig, SFTTrainerConfig

Config = PPOConfig | SFTConfig
SCHEMAS: dict[str, type[Config]] = {"ppo": PPOConfig, "sft": SFTConfig}

__all__ = [
    "REQUIRED",
    "SCHEMAS",
    "ActorConfig",
    "ActorRolloutRefConfig",
    "AlgorithmConfig",
    "BaseDataConfig",
    "BaseTrainerConfig",
    "Config",
    "CostConfig",
    "CriticConfig",
    "CustomRewardFunctionConfig",
    "KLControlConfig",
    "Limits",
    "MegatronConfig",
    "ModelConfig",
    "NewModelConfig",
    "OptimConfig",
    "PPOConfig",
    "PPODataConfig",
    "PPOTrainerConfig",
    "RefConfig",
    "RewardModelConfig",
    "RolloutConfig",
    "SFTConfig",
    "SFTDataConfig",
    "SFTModelConfig",
    "SFTTrainerConfig",
    "ScheduleConfig",
    "TaskConfig",
    "ValidationSamplingConfig",
]

"""The typed schemas: every key, its type, default, help and limits. `SCHEMAS` maps a command to its schema.

Names are verl's where it has one. One trap: verl counts ppo_mini_batch_size in prompts, here it counts samples.
"""

from fusedrl.config.schema.algorithm import AlgorithmConfig, KLControlConfig, RewardShapingConfig
from fusedrl.config.schema.critic import CriticConfig, CustomRewardFunctionConfig, RewardModelConfig
from fusedrl.config.schema.data import (
    BaseDataConfig,
    PPODataConfig,
    PromptDataConfig,
    RMDataConfig,
    SFTDataConfig,
    TaskConfig,
)
from fusedrl.config.schema.evaluate import EvaluateConfig, FiguresConfig
from fusedrl.config.schema.fields import REQUIRED, Limits
from fusedrl.config.schema.generate import GenerateConfig, ResponsesConfig
from fusedrl.config.schema.generation import GeneratingModelConfig, GenerationConfig, RunConfig
from fusedrl.config.schema.one_model import NewModelConfig, OneModelConfig, StartModelConfig
from fusedrl.config.schema.parallel import MegatronConfig, OptimConfig
from fusedrl.config.schema.policy import (
    ActorConfig,
    ActorRolloutRefConfig,
    EngineConfig,
    ModelConfig,
    RefConfig,
    RolloutConfig,
    StreamConfig,
    ValidationSamplingConfig,
)
from fusedrl.config.schema.ppo import PPOConfig
from fusedrl.config.schema.reward_model import RMConfig
from fusedrl.config.schema.schedule import CostConfig, ScheduleConfig
from fusedrl.config.schema.sft import SFTConfig
from fusedrl.config.schema.trainer import BaseTrainerConfig, PPOTrainerConfig

Config = PPOConfig | SFTConfig | RMConfig  # of commands that train
AnyConfig = Config | EvaluateConfig | GenerateConfig
SCHEMAS: dict[str, type[AnyConfig]] = {
    "ppo": PPOConfig,
    "sft": SFTConfig,
    "reward_model": RMConfig,
    "evaluate": EvaluateConfig,
    "generate": GenerateConfig,
}

__all__ = [
    "REQUIRED",
    "SCHEMAS",
    "ActorConfig",
    "ActorRolloutRefConfig",
    "AlgorithmConfig",
    "AnyConfig",
    "BaseDataConfig",
    "BaseTrainerConfig",
    "Config",
    "CostConfig",
    "CriticConfig",
    "CustomRewardFunctionConfig",
    "EngineConfig",
    "EvaluateConfig",
    "FiguresConfig",
    "GenerateConfig",
    "GeneratingModelConfig",
    "GenerationConfig",
    "KLControlConfig",
    "Limits",
    "MegatronConfig",
    "ModelConfig",
    "NewModelConfig",
    "OneModelConfig",
    "OptimConfig",
    "PPOConfig",
    "PPODataConfig",
    "PPOTrainerConfig",
    "PromptDataConfig",
    "RMConfig",
    "RMDataConfig",
    "RefConfig",
    "ResponsesConfig",
    "RewardModelConfig",
    "RewardShapingConfig",
    "RolloutConfig",
    "RunConfig",
    "SFTConfig",
    "SFTDataConfig",
    "ScheduleConfig",
    "StartModelConfig",
    "StreamConfig",
    "TaskConfig",
    "ValidationSamplingConfig",
]

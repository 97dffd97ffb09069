"""All keys of `-m fusedrl.ppo`."""

from dataclasses import dataclass

from fusedrl.config.schema.algorithm import AlgorithmConfig
from fusedrl.config.schema.critic import CriticConfig, CustomRewardFunctionConfig, RewardModelConfig
from fusedrl.config.schema.data import PPODataConfig
from fusedrl.config.schema.fields import group
from fusedrl.config.schema.policy import ActorRolloutRefConfig
from fusedrl.config.schema.schedule import ScheduleConfig
from fusedrl.config.schema.trainer import PPOTrainerConfig


@dataclass(frozen=True)
class PPOConfig:
    actor_rollout_ref: ActorRolloutRefConfig = group(ActorRolloutRefConfig, help="Actor, generation and reference")
    critic: CriticConfig = group(CriticConfig, help="The critic")
    reward_model: RewardModelConfig = group(RewardModelConfig, help="A neural reward model")
    custom_reward_function: CustomRewardFunctionConfig = group(
        CustomRewardFunctionConfig, help="A reward function of your own"
    )
    algorithm: AlgorithmConfig = group(AlgorithmConfig, help="Advantages and KL")
    data: PPODataConfig = group(PPODataConfig, help="Prompts")
    schedule: ScheduleConfig = group(ScheduleConfig, help="Order of work in the pipeline")
    trainer: PPOTrainerConfig = group(PPOTrainerConfig, help="The run")

"""PPO's own numbers: advantages and the KL to the reference."""

from dataclasses import dataclass

from fusedrl.config.schema.fields import group, key
from fusedrl.config.schema.policy import KL_ESTIMATORS, KL_ESTIMATORS_HELP

ESTIMATORS = ("gae", "grpo", "rloo", "reinforce_plus_plus", "remax")
GROUPED = ("grpo", "rloo")  # compare the samples of a prompt


@dataclass(frozen=True)
class KLControlConfig:
    type: str = key("fixed", help="Keep the coefficient, or steer the KL to target_kl", choices=("fixed", "adaptive"))
    kl_coef: float = key(0.001, help="(First) coefficient of the KL in the reward", at_least=0)
    horizon: int = key(10000, help="adaptive: samples over which the coefficient follows", at_least=1)
    target_kl: float = key(0.1, help="adaptive: the KL to keep", above=0)


@dataclass(frozen=True)
class RolloutCorrectionConfig:
    """Samples were drawn with log-probabilities that are not quite the trainer's: weights on the policy loss."""

    rollout_is: str | None = key(
        None,
        help="Weigh the policy loss by exp(trainer's - engine's log-probability), cut at the threshold, of each token "
        "or of each whole response; null: not, but by token with rollout.partial_rollout",
        choices=("token", "sequence"),
    )
    rollout_is_threshold: float = key(2.0, help="Largest weight", at_least=1)


@dataclass(frozen=True)
class AlgorithmConfig:
    adv_estimator: str = key(
        "gae",
        help="Estimator of the advantages; gae alone uses a critic, with the others none is built",
        choices=ESTIMATORS,
    )
    norm_adv_by_std_in_grpo: bool = key(
        True, help="grpo: divide by the standard deviation of the prompt's scores; false is Dr. GRPO"
    )
    gamma: float = key(1.0, help="Discount per token", at_least=0, at_most=1)
    lam: float = key(1.0, help="GAE's lambda", at_least=0, at_most=1)
    whiten_advantages: bool = key(
        True, help="gae, reinforce_plus_plus: whiten over the valid tokens of the whole batch (unbiased)"
    )
    use_kl_in_reward: bool = key(False, help="Subtract the KL to the reference from the reward of each token")
    kl_penalty: str = key("kl", help=f"Estimator of that KL ({KL_ESTIMATORS_HELP})", choices=KL_ESTIMATORS)
    kl_ctrl: KLControlConfig = group(KLControlConfig, help="Coefficient of the KL in the reward")
    rollout_correction: RolloutCorrectionConfig = group(
        RolloutCorrectionConfig, help="Importance weights of samples that another policy drew"
    )

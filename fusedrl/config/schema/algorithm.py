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

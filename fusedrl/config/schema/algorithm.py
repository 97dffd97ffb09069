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
class OverlongBufferConfig:
    """DAPO's soft punishment of responses that come near data.max_response_length."""

    len: int | None = key(
        None, help="Tokens before data.max_response_length over which the penalty grows; null: no penalty", at_least=1
    )
    penalty_factor: float = key(1.0, help="Penalty at data.max_response_length", above=0)


@dataclass(frozen=True)
class RewardShapingConfig:
    """What is done to a sample's score, of function and reward model together, in this sequence; critic/score logs it
    as it was before, critic/rewards as it became."""

    overlong_buffer: OverlongBufferConfig = group(OverlongBufferConfig, help="Penalty of long responses")
    missing_eos_penalty: float = key(
        0.0, help="Taken from the score of a response that was cut before its end token", at_least=0
    )
    clip_range: list[float] = key([], help="[low, high]: limits of the score; []: none")
    normalize: bool = key(False, help="Mean 0 and standard deviation 1 (unbiased) over the scores of a step")


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
    whiten_unbiased: bool = key(
        True, help="Variance in whitening: divided by n - 1 and 1e-8 added; false: divided by n and at least 1e-8"
    )
    whiten_rloo: bool = key(False, help="rloo: whiten over the whole batch, too, where whiten_advantages is true")
    grpo_std_eps: float = key(1e-6, help="grpo: added to the standard deviation", at_least=0)
    use_kl_in_reward: bool = key(False, help="Subtract the KL to the reference from the reward of each token")
    kl_penalty: str = key("kl", help=f"Estimator of that KL ({KL_ESTIMATORS_HELP})", choices=KL_ESTIMATORS)
    kl_clip: float | None = key(None, help="Largest absolute value of that KL at a token; null: no limit", above=0)
    kl_ctrl: KLControlConfig = group(KLControlConfig, help="Coefficient of the KL in the reward")
    rollout_correction: RolloutCorrectionConfig = group(
        RolloutCorrectionConfig, help="Importance weights of samples that another policy drew"
    )
    reward_shaping: RewardShapingConfig = group(RewardShapingConfig, help="Penalties and limits of scores")

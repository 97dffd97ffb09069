"""What PPO learns from: samples, and what each of their response tokens is worth.

    rewards_t = score on the last token - kl_coef * KL_t  ->  advantages and returns (estimate.py)

All tensors are [B, R] over response tokens (R: data.max_response_length), the same on every rank, fp32 on the CPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fusedrl.config.schema import AlgorithmConfig
from fusedrl.rl.correction import rollout_weights
from fusedrl.rl.shaping import place_scores, rewards_with_kl
from fusedrl.rl.statistics import critic_metrics
from fusedrl.trainers.estimate import estimate
from fusedrl.trainers.samples import Samples
from fusedrl.trainers.shaping import shaped

WEIGHTS = "rollout_weights"
"""Name of the importance weights among the fields that the policy loss reads."""


@dataclass(frozen=True, eq=False)
class Experience:
    """ref_logp_BR is None where no KL to a reference is used, values_BR where there is no critic, weights_BR where the
    policy loss has no importance weights."""

    samples: Samples
    score_B: Tensor
    logp_BR: Tensor
    ref_logp_BR: Tensor | None
    values_BR: Tensor | None
    rewards_BR: Tensor
    advantages_BR: Tensor
    returns_BR: Tensor
    kl: float  # mean KL to the reference per sample's token, 0 without a reference
    weights_BR: Tensor | None = None

    def fields(self) -> dict[str, Tensor]:
        """What the losses of actor and critic read, one row a sample."""
        found = {
            "prompt_lengths": self.samples.prompt_lengths_B,
            "mask": self.samples.mask_BR,
            "old_logp": self.logp_BR,
            "advantages": self.advantages_BR,
            "returns": self.returns_BR,
        }
        optional = {"old_values": self.values_BR, "ref_logp": self.ref_logp_BR, WEIGHTS: self.weights_BR}
        return found | {name: value for name, value in optional.items() if value is not None}

    def metrics(self) -> dict[str, float]:
        """verl's critic/* statistics of the batch, and those of the weights."""
        mask_BR = self.samples.mask_BR
        found = critic_metrics(
            self.score_B, self.rewards_BR, self.advantages_BR, self.returns_BR, mask_BR, values_BT=self.values_BR
        )
        return found if self.weights_BR is None else found | _weight_metrics(self.weights_BR[mask_BR])


def make_experience(
    samples: Samples,
    score_B: Tensor,
    inferred: Mapping[str, Tensor],
    *,
    algorithm: AlgorithmConfig,
    kl_coef: float,
    n: int = 1,
) -> Experience:
    """Rewards, advantages and returns of a step. n: samples of a prompt. `inferred`: "logp", with a critic "values",
    where a KL is used "ref_logp", and what else the estimator needs (estimate.py).

    Raises ValueError where a model gave a number that is not finite: it would spread into every weight.
    """
    mask_BR = samples.mask_BR
    for name, found_BR in inferred.items():
        if found_BR.shape == mask_BR.shape and not bool(torch.isfinite(found_BR[mask_BR]).all()):
            raise ValueError(
                f"{name} of this step's samples holds NaN or infinity: lower the learning rates (optim.lr)"
            )
    shaped_B = shaped(score_B, samples, algorithm.reward_shaping)
    rewards_BR, kl = _rewards(shaped_B, inferred, mask_BR, algorithm=algorithm, coef=kl_coef)
    values_BR = torch.where(mask_BR, inferred["values"], 0.0) if "values" in inferred else None
    found = inferred if values_BR is None else {**inferred, "values": values_BR}
    advantages_BR, returns_BR = estimate(rewards_BR, mask_BR, found, algorithm=algorithm, n=n)
    return Experience(
        samples=samples,
        score_B=score_B,
        logp_BR=inferred["logp"],
        ref_logp_BR=inferred.get("ref_logp"),
        values_BR=values_BR,
        rewards_BR=rewards_BR,
        advantages_BR=advantages_BR,
        returns_BR=returns_BR,
        kl=kl,
        weights_BR=_weights(samples, inferred["logp"], algorithm),
    )


def _weights(samples: Samples, logp_BR: Tensor, algorithm: AlgorithmConfig) -> Tensor | None:
    """How much likelier the trainer's policy, before the update, makes the tokens than the one that drew them."""
    level, upper = algorithm.rollout_correction.rollout_is, algorithm.rollout_correction.rollout_is_threshold
    if level is None:
        return None
    return rollout_weights(logp_BR, samples.rollout_logp_BR, samples.mask_BR, level=level, upper=upper)


def _weight_metrics(weight_N: Tensor) -> dict[str, float]:
    """verl's names; of the valid tokens, after the cut."""
    if not len(weight_N):
        return {}
    return {f"rollout_corr/rollout_is_{name}": float(getattr(weight_N, name)()) for name in ("mean", "min", "max")}


def _rewards(
    score_B: Tensor, inferred: Mapping[str, Tensor], mask_BR: Tensor, *, algorithm: AlgorithmConfig, coef: float
) -> tuple[Tensor, float]:
    if "ref_logp" not in inferred:
        return place_scores(score_B, mask_BR), 0.0
    coef = coef if algorithm.use_kl_in_reward else 0.0
    logp_BR, ref_logp_BR, options = inferred["logp"], inferred["ref_logp"], algorithm
    rewards_BR, kl_BR = rewards_with_kl(
        score_B, logp_BR, ref_logp_BR, mask_BR, coef=coef, kind=options.kl_penalty, clip=options.kl_clip
    )
    return rewards_BR, float(kl_BR.sum() / mask_BR.sum().clamp(min=1))

"""The advantages of a step by algorithm.adv_estimator: fusedrl.rl.advantages behind the configuration's names.

    gae                    the critic's values; whitened over the batch
    reinforce_plus_plus    discounted reward-to-go; whitened over the batch
    grpo, rloo             the scores of a prompt's other samples
    remax                  the score of the greedy response to the same prompt

Shapes: B samples of the step, neighbours of one prompt together; R response tokens.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fusedrl.config.schema import AlgorithmConfig
from fusedrl.rl import advantages
from fusedrl.rl.normalize import whiten

BASELINE = "baseline_score"
"""Name of the greedy responses' scores [B, 1] among the inferred results."""


def needs_baseline(algorithm: AlgorithmConfig) -> bool:
    """Whether greedy responses are generated and scored beside the samples."""
    return algorithm.adv_estimator == "remax"


def estimate(
    rewards_BR: Tensor, mask_BR: Tensor, inferred: Mapping[str, Tensor], *, algorithm: AlgorithmConfig, n: int
) -> advantages.Estimate:
    """(advantages_BR, returns_BR). inferred: "values" for gae, BASELINE for remax; n: samples of a prompt."""
    name, options = algorithm.adv_estimator, algorithm
    if name == "gae":
        found = advantages.gae(rewards_BR, inferred["values"], mask_BR, gamma=options.gamma, lam=options.lam)
        return _whitened(found, mask_BR, algorithm)
    if name == "reinforce_plus_plus":
        return advantages.reinforce_pp(rewards_BR, mask_BR, gamma=options.gamma, whiten=options.whiten_advantages)
    if name == "remax":
        return advantages.remax(rewards_BR, inferred[BASELINE][:, 0], mask_BR)
    groups_B = torch.arange(len(rewards_BR)) // n
    if name == "rloo":
        return advantages.rloo(rewards_BR, groups_B, mask_BR)
    assert name == "grpo", name
    by_std = advantages.grpo if options.norm_adv_by_std_in_grpo else advantages.dr_grpo
    return by_std(rewards_BR, groups_B, mask_BR)


def _whitened(found: advantages.Estimate, mask_BR: Tensor, algorithm: AlgorithmConfig) -> advantages.Estimate:
    advantages_BR, returns_BR = found
    return (whiten(advantages_BR, mask_BR) if algorithm.whiten_advantages else advantages_BR), returns_BR

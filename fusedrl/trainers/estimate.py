"""The advantages of a step by algorithm.adv_estimator: fusedrl.rl.advantages behind the configuration's names.

    gae                    the critic's values; whitened over the batch
    reinforce_plus_plus    discounted reward-to-go; whitened over the batch
    grpo, rloo             the scores of a prompt's other samples; rloo whitened where asked for
    remax                  the score of the greedy response to the same prompt

Shapes: B samples of the step, neighbours of one prompt together; R response tokens.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fusedrl.config.schema import AlgorithmConfig
from fusedrl.rl import advantages
from fusedrl.rl.normalize import whiten
from fusedrl.rl.shaping import clip_scores

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
        found = advantages.reinforce_pp(rewards_BR, mask_BR, gamma=options.gamma, whiten=False)
        return _whitened(found, mask_BR, algorithm)
    if name == "remax":
        return advantages.remax(rewards_BR, _limited(inferred[BASELINE][:, 0], algorithm), mask_BR)
    groups_B = torch.arange(len(rewards_BR)) // n
    if name == "rloo":
        found = advantages.rloo(rewards_BR, groups_B, mask_BR)
        return _whitened(found, mask_BR, algorithm) if options.whiten_rloo else found
    assert name == "grpo", name
    if not options.norm_adv_by_std_in_grpo:
        return advantages.dr_grpo(rewards_BR, groups_B, mask_BR)
    return advantages.grpo(rewards_BR, groups_B, mask_BR, eps=options.grpo_std_eps)


def _limited(baseline_B: Tensor, algorithm: AlgorithmConfig) -> Tensor:
    """Within the limits of the scores that it is compared with."""
    limits = algorithm.reward_shaping.clip_range
    return clip_scores(baseline_B, low=limits[0], high=limits[1]) if limits else baseline_B


def _whitened(found: advantages.Estimate, mask_BR: Tensor, algorithm: AlgorithmConfig) -> advantages.Estimate:
    advantages_BR, returns_BR = found
    if not algorithm.whiten_advantages:
        return found
    return whiten(advantages_BR, mask_BR, unbiased=algorithm.whiten_unbiased), returns_BR

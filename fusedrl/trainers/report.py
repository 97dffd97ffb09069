"""The metrics of a PPO step under verl's names; each step's object in metrics.jsonl.

Losses and gradient norms are means over the step's optimizer steps. Bubble ratios are means over its training passes:
planned by the schedule's costs, replayed with the measured durations, measured on the clock; so are schedule/*.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor

from fusedrl.config.schema import PPOConfig
from fusedrl.parallel.team import current
from fusedrl.rl.correction import agreement
from fusedrl.rl.kl import AdaptiveController, FixedController
from fusedrl.rl.masked import masked_mean
from fusedrl.rl.statistics import length_metrics
from fusedrl.telemetry.rates import memory, rates
from fusedrl.trainers.experience import Experience
from fusedrl.trainers.scoring import Scores
from fusedrl.trainers.update import Update


def step_metrics(
    experience: Experience,
    inferred: Mapping[str, Tensor],
    updates: Sequence[Update],
    *,
    scores: Scores,
    timing_s: Mapping[str, float],
    config: PPOConfig,
    kl: FixedController | AdaptiveController,
) -> dict[str, float]:
    """All metrics of a step; equal on every rank but for timings and memory."""
    samples, data = experience.samples, config.data
    found = mean_of([each.metrics | each.schedule for each in updates])
    found |= {
        f"perf/bubble_ratio/{kind}": sum(getattr(each.report, f"{kind}_bubble") for each in updates) / len(updates)
        for kind in ("planned", "replayed", "measured")
    }
    found |= experience.metrics() | scores.metrics | dict(timing_s) | memory()
    found |= length_metrics(samples.prompt_lengths_B, name="prompt_length", limit=data.max_prompt_length)
    found |= length_metrics(samples.response_lengths_B, name="response_length", limit=data.max_response_length)
    found |= agreement(inferred["logp"], samples.rollout_logp_BR, samples.mask_BR)
    found["actor/entropy"] = float(masked_mean(inferred["entropy"], samples.mask_BR))
    if experience.ref_logp_BR is not None:
        found |= {"actor/reward_kl_penalty": experience.kl, "actor/reward_kl_penalty_coeff": kl.coef}
    tokens, responses = int(samples.lengths_B.sum()), int(samples.response_lengths_B.sum())
    return found | rates(timing_s, tokens=tokens, response_tokens=responses, ranks=current().size)


def mean_of(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Each metric's mean over the parts that have it."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: sum(part[name] for part in parts if name in part) / sum(name in part for part in parts) for name in names
    }

"""algorithm/preset=NAME: what each library would compute from the same batch, by plain loops, is what ours computes.

Shapes: B samples, R response tokens.
"""

import math
import statistics
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from fusedrl.config.load import CONFIGS, load
from fusedrl.config.schema import OptimConfig, PPOConfig
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.trainers import losses
from fusedrl.trainers.experience import Experience, make_experience
from fusedrl.trainers.samples import Samples
from tests.fusedrl.rl.reference import gae_of_one, rows
from tests.fusedrl.trainers.test_cutting import role

MASK_BR = rows([1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]) != 0
LOGP_BR = rows([-1, -2, -0.5], [-1, 0, 0], [-3, -1, 0], [-0.1, -0.2, -2])
REF_BR = rows([-1.5, -1, -14.5], [-1.25, 0, 0], [-2, -1.5, 0], [-0.3, -0.1, -2.5])  # once 14 nats away
VALUES_BR = rows([0.1, 0.3, -0.2], [0.5, 0, 0], [0.2, 0.1, 0], [-0.1, 0.4, 0.3])
SCORES = (12.0, -0.5, 1.0, 1.0003)  # beyond 10; of one prompt nearly equal


@dataclass(frozen=True)
class Library:
    """What disagrees, as its own code has it."""

    lam: float = 1.0
    kl_coef: float = 0.0
    kl_limit: float = math.inf
    score_limit: float = math.inf
    unbiased: bool = True
    rloo_is_whitened: bool = False
    std_eps: float = 1e-6
    dual_clip: float = math.inf
    value_clip: float = 0.5
    beta2: float = 0.999
    decay: float = 0.0


LIBRARIES = {
    "verl": Library(dual_clip=3.0, decay=0.01),
    "trl": Library(lam=0.95, kl_coef=0.05, std_eps=1e-4, value_clip=0.2),
    "openrlhf": Library(
        kl_coef=0.01, kl_limit=10, score_limit=10, unbiased=False, rloo_is_whitened=True, std_eps=1e-9, beta2=0.95
    ),
}
LIBRARIES["none"] = LIBRARIES["verl"]  # ours, in what is compared here


def config(preset: str, *more: str) -> PPOConfig:
    return load("ppo", ["actor_rollout_ref.model.path=m", f"algorithm/preset={preset}", *more])


def experience(preset: str, *more: str) -> Experience:
    lengths_B = MASK_BR.sum(1)
    samples = Samples(
        torch.zeros(4, 4, dtype=torch.int64), torch.ones(4, dtype=torch.int64), lengths_B, MASK_BR, REF_BR
    )
    algorithm = config(preset, *more).algorithm
    coef = algorithm.kl_ctrl.kl_coef
    inferred = {"logp": LOGP_BR, "ref_logp": REF_BR, "values": VALUES_BR}
    return make_experience(
        samples, torch.tensor(SCORES, dtype=torch.float64), inferred, algorithm=algorithm, kl_coef=coef, n=2
    )


def rewards_of(library: Library) -> list[list[float]]:
    """Of each sample's valid tokens: its score on the last one, less the KL of each."""
    found = []
    for b, score in enumerate(SCORES):
        kl = (LOGP_BR - REF_BR)[b][MASK_BR[b]].tolist()
        tokens = [-library.kl_coef * min(max(each, -library.kl_limit), library.kl_limit) for each in kl]
        tokens[-1] += min(max(score, -library.score_limit), library.score_limit)
        found.append(tokens)
    return found


def whitened(tokens: list[float], library: Library) -> list[float]:
    mean = statistics.fmean(tokens)
    if library.unbiased:
        scale = math.sqrt(statistics.variance(tokens) + 1e-8)
    else:
        scale = math.sqrt(max(statistics.pvariance(tokens), 1e-8))
    return [(each - mean) / scale for each in tokens]


def spread(sums: list[float]) -> list[float]:
    """One number a sample, for each of its tokens."""
    return [each for each, count in zip(sums, MASK_BR.sum(1).tolist(), strict=True) for _ in range(count)]


def assert_advantages(found: Experience, expected: list[float]) -> None:
    assert found.advantages_BR[MASK_BR].tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", LIBRARIES)
def test_gae_takes_its_rewards_lambda_and_whitening(name: str) -> None:
    library = LIBRARIES[name]
    tokens: list[float] = []
    for b, rewards in enumerate(rewards_of(library)):
        tokens += gae_of_one(rewards, VALUES_BR[b][MASK_BR[b]].tolist(), gamma=1.0, lam=library.lam)
    assert_advantages(experience(name), whitened(tokens, library))


@pytest.mark.parametrize("name", LIBRARIES)
def test_rloo_takes_its_rewards_and_is_whitened_where_the_library_does(name: str) -> None:
    library = LIBRARIES[name]
    a, b, c, d = map(sum, rewards_of(library))
    tokens = spread([a - b, b - a, c - d, d - c])
    assert_advantages(
        experience(name, "algorithm=rloo"), whitened(tokens, library) if library.rloo_is_whitened else tokens
    )


@pytest.mark.parametrize("name", LIBRARIES)
def test_grpo_adds_its_epsilon_to_the_unbiased_deviation(name: str) -> None:
    """Nearly equal scores of the second prompt: the epsilons give other numbers."""
    library = LIBRARIES[name]
    sums = [min(score, library.score_limit) for score in SCORES]
    tokens = []
    for pair in (sums[:2], sums[2:]):
        scale = statistics.stdev(pair) + library.std_eps
        tokens += [(each - statistics.fmean(pair)) / scale for each in pair]
    found = experience(name, "algorithm=grpo", "algorithm.use_kl_in_reward=false")
    assert_advantages(found, spread(tokens))


def microbatch(**fields: Tensor) -> MicroBatch:
    """One response token."""
    return MicroBatch(torch.tensor([[1, 0]]), {"prompt_lengths": torch.tensor([1]), "mask": torch.ones(1, 1), **fields})


@pytest.mark.parametrize("name", LIBRARIES)
def test_policy_loss_has_its_dual_clip_or_none(name: str) -> None:
    """A token five times as likely as before, whose advantage is negative."""
    place, one = role(dp=1, rank=0), torch.ones(1, 1)
    place.groups.tp, place.vocab_size = None, 2
    batch = microbatch(old_logp=one * math.log(0.1), advantages=-one)
    loss_of = losses.policy_loss(config(name).actor_rollout_ref.actor, one, actor=place, temperature=1.0)
    loss, _ = loss_of(torch.zeros(1, 2, 2), batch)
    assert float(loss) == pytest.approx(min(5.0, LIBRARIES[name].dual_clip), rel=1e-6)


@pytest.mark.parametrize("name", LIBRARIES)
def test_value_loss_has_its_clip_range(name: str) -> None:
    """From 0 to the return, 1: the loss is that of the value as far as it may move."""
    one = torch.ones(1, 1)
    batch = microbatch(old_values=0 * one, returns=one)
    loss, _ = losses.value_loss(config(name).critic, one, critic=role(dp=1, rank=0))(torch.ones(1, 2, 1), batch)
    assert float(loss) == pytest.approx(0.5 * (1 - LIBRARIES[name].value_clip) ** 2, rel=1e-6)


@pytest.mark.parametrize("name", LIBRARIES)
def test_both_optimizers_have_its_betas_and_decay(name: str) -> None:
    found, library = config(name), LIBRARIES[name]
    for optim in (found.actor_rollout_ref.actor.optim, found.critic.optim):
        assert isinstance(optim, OptimConfig)
        assert (optim.betas, optim.weight_decay) == ([0.9, library.beta2], library.decay)
        assert (optim.eps, optim.clip_grad) == (1e-8, 1.0)


def test_a_preset_is_over_the_algorithm_and_under_the_arguments() -> None:
    both = config("trl", "algorithm=ppo_kl", "algorithm.lam=0.9")
    assert both.algorithm.kl_ctrl.kl_coef == 0.05
    assert both.algorithm.kl_ctrl.type == "fixed"
    assert both.algorithm.lam == 0.9
    assert config("none") == load("ppo", ["actor_rollout_ref.model.path=m"])


def test_every_preset_is_compared_and_every_line_of_one_sets_a_key_of_the_others() -> None:
    files = {path.stem: path for path in (CONFIGS / "algorithm/preset").glob("*.yaml")}
    assert set(files) == set(LIBRARIES)
    keys: list[Any] = []
    for name in set(files) - {"none"}:
        lines = [line for line in files[name].read_text().splitlines() if line and not line.startswith("#")]
        keys.append([line.partition(":")[0] for line in lines])
    assert keys.count(keys[0]) == len(keys)

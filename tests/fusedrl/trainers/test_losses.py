"""Losses as last stages compute them: in float64 the way a batch is cut and padded changes the order of sums alone.

The models are tables: features of each token x a weight matrix, so that gradients meet in one parameter as they do in a
trained one. Garbage stands wherever a row or a response is padded.

Shapes: B samples, S tokens of a row, R response tokens, N tokens of all samples, M response tokens of all samples.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from fusedrl.config.budgets import Budget
from fusedrl.config.schema import ActorConfig, AlgorithmConfig, CriticConfig
from fusedrl.config.schema.policy import LOSS_AGG_MODES, PolicyLossConfig
from fusedrl.pipeline.microbatch import MicroBatch, gather_microbatches
from fusedrl.trainers import losses
from fusedrl.trainers.cutting import replica_groups
from fusedrl.trainers.experience import WEIGHTS, Experience, make_experience
from fusedrl.trainers.samples import Samples
from tests.fusedrl.trainers.test_cutting import role

PROMPTS, RESPONSES = torch.tensor([3, 6, 4, 5, 3, 3, 6, 4]), torch.tensor([6, 1, 4, 2, 5, 3, 6, 1])
WIDTH, VOCAB, HIDDEN = 6, 7, 4
ROW = int((PROMPTS + RESPONSES).max()) + 2
SIDES = ("right", "left")
CUTS = [  # replicas, samples of a micro-batch, tokens of one instead
    (1, 8, None),
    (1, 1, None),
    (2, 2, None),
    (4, 1, None),
    (1, 8, 24),
    (2, 8, 26),
    (4, 8, 14),
]
ALGORITHM = AlgorithmConfig(gamma=0.97, lam=0.9, use_kl_in_reward=True)


def normal(*size: int, seed: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positions(lengths_B: Tensor, *, width: int, side: str) -> Tensor:
    """[B, width]: which token of all samples' stands where; -1 for padding on `side`."""
    place_BW = torch.arange(width) - (width - lengths_B[:, None] if side == "left" else 0)
    begin_B = lengths_B.cumsum(0) - lengths_B
    real_BW = (place_BW >= 0) & (place_BW < lengths_B[:, None])
    return torch.where(real_BW, place_BW + begin_B[:, None], -1)


def laid(values: Tensor, place_BW: Tensor, *, fill: float) -> Tensor:
    """The values of all samples' tokens at their places, `fill` at the others."""
    return torch.cat([values, torch.full_like(values[:1], fill)])[place_BW]


@dataclass(frozen=True, eq=False)
class Batch:
    """Experience of one batch; where its rows' tokens stand among all tokens."""

    experience: Experience
    place_BS: Tensor


def batch(*, side: str) -> Batch:
    """The same samples and the same numbers a token, padded on `side`, rows and responses alike."""
    lengths_B, count = PROMPTS + RESPONSES, int(RESPONSES.sum())
    place_BS = positions(lengths_B, width=ROW, side=side)
    place_BR = positions(RESPONSES, width=WIDTH, side=side)
    tokens_N = torch.randint(0, VOCAB, (int(lengths_B.sum()),), generator=torch.Generator().manual_seed(1))
    # the first column of the response window, counted in the row
    window_B = PROMPTS if side == "right" else torch.full_like(PROMPTS, ROW - WIDTH)
    samples = Samples(
        tokens_BS=laid(tokens_N, place_BS, fill=0),
        prompt_lengths_B=window_B,
        response_lengths_B=RESPONSES,
        mask_BR=place_BR >= 0,
        rollout_logp_BR=torch.zeros(place_BR.shape),
    )
    inferred = {
        name: laid(shift + 0.3 * normal(count, seed=seed), place_BR, fill=float("nan"))
        for seed, (name, shift) in enumerate({"logp": -2.0, "ref_logp": -2.1, "values": 0.2}.items())
    }
    made = make_experience(samples, normal(8, seed=9), inferred, algorithm=ALGORITHM, kl_coef=0.1, n=2)
    return Batch(made, place_BS)


def micro_batches(of: Batch, *, dp: int, rows: int, tokens: int | None, side: str) -> list[MicroBatch]:
    """Of all replicas."""
    lengths_B, samples = PROMPTS + RESPONSES, of.experience.samples
    budget = None if tokens is None else Budget(tokens, "key")
    fields = {**of.experience.fields(), "index": torch.arange(8)}
    width_B = lengths_B if side == "right" else torch.full_like(lengths_B, ROW)  # trimmed where padding is on the right
    return [
        each
        for rank in range(dp)
        for each in gather_microbatches(
            samples.tokens_BS,
            lengths_B=width_B,
            groups=replica_groups(role(dp=dp, rank=rank), lengths_B, micro_batch=rows, budget=budget),
            fields=fields,
        )
    ]


def trained(of: Batch, cut: list[MicroBatch], *, model: str, mode: str) -> tuple[Tensor, dict[str, float]]:
    """Gradient of the model's weights, and loss, gradient norm and metrics; all of them sums over micro-batches."""
    mask_BR, place = of.experience.samples.mask_BR, role(dp=1, rank=0)
    place.groups.tp, place.vocab_size = None, VOCAB
    if model != "critic":
        kind = PolicyLossConfig(loss_mode=model)
        config = ActorConfig(
            clip_ratio=0.05, policy_loss=kind, entropy_coeff=0.01, use_kl_loss=True, loss_agg_mode=mode
        )
        loss_of = losses.policy_loss(config, mask_BR, actor=place, temperature=0.7)
    else:
        critic = CriticConfig(cliprange_value=0.1, loss_agg_mode=mode)
        loss_of = losses.value_loss(critic, mask_BR, critic=place)
    features_NH = normal(int((PROMPTS + RESPONSES).sum()), HIDDEN, seed=5)
    weight_HV = normal(HIDDEN, 1 if model == "critic" else VOCAB, seed=6).requires_grad_()
    sums: dict[str, float] = {}
    for each in cut:
        features = laid(features_NH, of.place_BS[each["index"], : each.length], fill=3.0)
        share, metrics = loss_of(features @ weight_HV, each)
        share.backward()
        for name, value in {"loss": share, **metrics}.items():
            sums[name] = sums.get(name, 0.0) + float(value)
    assert weight_HV.grad is not None
    return weight_HV.grad, sums | {"grad_norm": float(weight_HV.grad.norm())}


@pytest.mark.parametrize("mode", LOSS_AGG_MODES)
@pytest.mark.parametrize("model", ["vanilla", "gspo", "critic"])
def test_loss_gradient_norm_and_metrics_are_invariant_to_micro_batches_replicas_padding_side_and_budgets(
    model: str, mode: str
) -> None:
    whole = batch(side="right")
    gradient, found = trained(
        whole, micro_batches(whole, dp=1, rows=8, tokens=None, side="right"), model=model, mode=mode
    )
    assert ("critic/vf_clipfrac" if model == "critic" else "actor/pg_clipfrac") in found
    assert all(value != 0.0 for name, value in found.items() if not name.endswith("_lower"))
    counts = set()
    for side in SIDES:
        other = batch(side=side)
        for dp, rows, tokens in CUTS:
            cut = micro_batches(other, dp=dp, rows=rows, tokens=tokens, side=side)
            counts.add(len(cut))
            gradient_, found_ = trained(other, cut, model=model, mode=mode)
            torch.testing.assert_close(gradient_, gradient, rtol=1e-12, atol=1e-14)
            assert found_ == pytest.approx(found, rel=1e-12, abs=1e-15), (side, dp, rows, tokens)
    assert len(counts) > 3


def test_statistics_of_experience_do_not_depend_on_the_padding_side() -> None:
    right, left = (batch(side=side).experience for side in SIDES)
    assert not torch.equal(right.samples.mask_BR, left.samples.mask_BR)
    assert left.metrics() == pytest.approx(right.metrics(), rel=1e-12, abs=1e-15)
    assert left.kl == pytest.approx(right.kl, rel=1e-12)
    for name in ("advantages_BR", "returns_BR", "rewards_BR"):
        ours, theirs = (getattr(made, name)[made.samples.mask_BR] for made in (left, right))
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_temperature_divides_the_actor_s_logits_and_leaves_the_critic_s_values() -> None:
    """Logits [2, 0], token 0, temperature 0.5: log-probability -0.01815, not -0.12693; a value of 3 stays 3."""
    one, place = torch.ones(1, 1), role(dp=1, rank=0)
    place.groups.tp, place.vocab_size = None, 2
    fields = {"prompt_lengths": torch.tensor([1]), "mask": one, "old_logp": 0 * one, "advantages": one}
    fields |= {"old_values": 3 * one, "returns": 3 * one}
    microbatch = MicroBatch(torch.tensor([[1, 0]]), fields)
    logits_BSV = torch.tensor([[[2.0, 0.0], [0.0, 0.0]]])
    _, found = losses.policy_loss(ActorConfig(), one, actor=place, temperature=0.5)(logits_BSV, microbatch)
    assert float(found["actor/ppo_kl"]) == pytest.approx(0.01815, abs=5e-6)
    values_BS1 = torch.full((1, 2, 1), 3.0)
    loss, found = losses.value_loss(CriticConfig(), one, critic=place)(values_BS1, microbatch)
    assert float(found["critic/vpred_mean"]) == 3.0
    assert float(loss) == 0.0


def test_values_in_float64_lose_no_digit() -> None:
    near, one = 3.0 + 2.0**-40, torch.ones(1, 1, dtype=torch.float64)
    fields = {"prompt_lengths": torch.tensor([1]), "mask": one, "old_values": near * one, "returns": 0 * one}
    loss_of = losses.value_loss(CriticConfig(), one, critic=role(dp=1, rank=0))
    _, found = loss_of(near * one[:, :, None], MicroBatch(torch.tensor([[1]]), fields))
    assert float(found["critic/vpred_mean"]) == near


def test_importance_weights_multiply_the_policy_loss_of_their_tokens() -> None:
    """Two tokens of probability a half, unchanged: each costs minus its advantage of 1, times its weight."""
    two, place = torch.ones(1, 2), role(dp=1, rank=0)
    place.groups.tp, place.vocab_size = None, 2
    fields = {"prompt_lengths": torch.tensor([1]), "mask": two, "advantages": two}
    fields["old_logp"] = torch.full((1, 2), 0.5).log()
    loss_of = losses.policy_loss(ActorConfig(), two, actor=place, temperature=1.0)
    logits_BSV = torch.zeros(1, 3, 2)
    plain, _ = loss_of(logits_BSV, MicroBatch(torch.tensor([[1, 0, 1]]), fields))
    fields[WEIGHTS] = torch.tensor([[0.5, 2.0]])
    weighed, _ = loss_of(logits_BSV, MicroBatch(torch.tensor([[1, 0, 1]]), fields))
    assert float(plain) == pytest.approx(-1.0)
    assert float(weighed) == pytest.approx(-(0.5 + 2.0) / 2)


def test_gspo_is_chosen_by_its_name_with_the_clip_ranges_given() -> None:
    """Two tokens with log-ratios ln 2 and 0: one ratio of sqrt 2 for both, clipped at 1.3."""
    two, place = torch.ones(1, 2), role(dp=1, rank=0)
    place.groups.tp, place.vocab_size = None, 2
    fields = {"prompt_lengths": torch.tensor([1]), "mask": two, "advantages": two}
    fields["old_logp"] = torch.tensor([[0.25, 0.5]]).log()
    config = ActorConfig(policy_loss=PolicyLossConfig(loss_mode="gspo"), clip_ratio_high=0.3)
    loss_of = losses.policy_loss(config, two, actor=place, temperature=1.0)
    loss, metrics = loss_of(torch.zeros(1, 3, 2), MicroBatch(torch.tensor([[1, 0, 1]]), fields))
    assert float(loss) == pytest.approx(-1.3)
    assert float(metrics["actor/pg_clipfrac"]) == pytest.approx(1.0)

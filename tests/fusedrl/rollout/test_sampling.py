"""Tokens follow the truncated distribution, log-probs the untruncated one, and no row sees another."""

import pytest
import torch

from fusedrl.rollout.randomness import sample_keys, uniform
from fusedrl.rollout.sampling import Controls, SamplingParams, kept, sample

VOCAB = 7
LOGITS = torch.tensor([1.0, 0.5, -1.0, 2.0, 0.0, -0.5, 1.5, 99.0, 99.0])  # the last two entries are padding


def draw(params: SamplingParams, *, count: int = 20_000, logits: torch.Tensor = LOGITS, vocab: int = VOCAB):
    controls = Controls.of([params] * count, vocab_size=vocab)
    u_R = uniform(sample_keys([(params.seed, params.step, i) for i in range(count)]), torch.zeros(count).long())
    return sample(logits.expand(count, -1), u_R, controls=controls, vocab_size=vocab)


def chi_square(tokens: torch.Tensor, probabilities: torch.Tensor) -> float:
    counts = torch.bincount(tokens, minlength=len(probabilities)).double()
    expected = probabilities.double() * len(tokens)
    assert counts[expected == 0].sum() == 0
    inside = expected > 0
    return float(((counts - expected)[inside] ** 2 / expected[inside]).sum())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_follow_the_tempered_softmax(temperature):
    tokens, _ = draw(SamplingParams(temperature=temperature))
    assert chi_square(tokens, torch.softmax(LOGITS[:VOCAB] / temperature, 0)) < 22.5  # 99.9 %, 6 degrees


def test_tokens_follow_the_renormalised_top_k():
    tokens, _ = draw(SamplingParams(top_k=3))
    masked = torch.full((VOCAB,), -torch.inf)
    masked[[0, 3, 6]] = LOGITS[[0, 3, 6]]
    assert chi_square(tokens, torch.softmax(masked, 0)) < 13.8  # 99.9 %, 2 degrees


def test_top_k_and_top_p_keep_exact_sets():
    logp = torch.tensor([[0.1, 0.4, 0.05, 0.25, 0.2]]).log()

    def keep(k: int, p: float) -> list[int]:
        mask = kept(logp, top_k_R1=torch.tensor([[k]]), top_p_R1=torch.tensor([[p]], dtype=torch.float64))
        return mask[0].nonzero().flatten().tolist()

    assert keep(5, 1.0) == [0, 1, 2, 3, 4]
    assert keep(2, 1.0) == [1, 3]
    assert keep(5, 0.39) == [1]
    assert keep(5, 0.41) == [1, 3]  # the token that crosses p stays
    assert keep(5, 0.86) == [0, 1, 3, 4]
    assert keep(2, 0.6) == [1]  # top-p counts within the top k: 0.4 / 0.65 > 0.6
    assert keep(5, 1e-6) == [1]


def test_top_k_breaks_ties_by_token_id():
    logp = torch.zeros(1, 6).log_softmax(-1)
    mask = kept(logp, top_k_R1=torch.tensor([[4]]), top_p_R1=torch.ones(1, 1, dtype=torch.float64))
    assert mask[0].nonzero().flatten().tolist() == [0, 1, 2, 3]


def test_truncation_that_keeps_all_changes_no_token():
    plain, _ = draw(SamplingParams())
    full, _ = draw(SamplingParams(top_k=VOCAB))
    mixed = Controls.of([SamplingParams(), SamplingParams(top_k=1)] * 100, vocab_size=VOCAB)
    u_R = uniform(sample_keys([(0, 0, i) for i in range(200)]), torch.zeros(200).long())
    beside_truncated, _ = sample(LOGITS.expand(200, -1), u_R, controls=mixed, vocab_size=VOCAB)
    assert torch.equal(plain, full)
    assert torch.equal(beside_truncated[::2], plain[:200:2])
    assert (beside_truncated[1::2] == 3).all()


@pytest.mark.parametrize(
    "params", [SamplingParams(temperature=0.7, top_k=2), SamplingParams(temperature=0.7, top_p=0.6)]
)
def test_logprobs_are_tempered_and_untruncated(params):
    tokens, logp = draw(params, count=50)
    assert torch.equal(logp, torch.log_softmax(LOGITS[:VOCAB] / 0.7, 0)[tokens])


def test_greedy_takes_the_best_real_token_and_reports_temperature_one():
    tokens, logp = draw(SamplingParams(temperature=0), count=3)
    assert tokens.tolist() == [3, 3, 3]
    assert torch.equal(logp, torch.log_softmax(LOGITS[:VOCAB], 0)[tokens])


def test_mixed_rows_equal_rows_alone():
    params = [
        SamplingParams(temperature=0),
        SamplingParams(temperature=0.3),
        SamplingParams(top_k=2),
        SamplingParams(top_p=0.5, temperature=1.7),
    ] * 25
    logits = torch.randn(100, 11, generator=torch.Generator().manual_seed(0))
    u_R = uniform(sample_keys([(5, 1, i) for i in range(100)]), torch.arange(100))
    together = sample(logits, u_R, controls=Controls.of(params, vocab_size=9), vocab_size=9)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(1))
    shuffled = Controls.of([params[i] for i in order], vocab_size=9)
    again = sample(logits[order], u_R[order], controls=shuffled, vocab_size=9)
    for row in range(100):
        alone = sample(
            logits[row : row + 1], u_R[row : row + 1], controls=Controls.of([params[row]], vocab_size=9), vocab_size=9
        )
        assert int(alone[0]) == int(together[0][row])
        assert float(alone[1]) == float(together[1][row])
    assert torch.equal(again[0], together[0][order])
    assert torch.equal(again[1], together[1][order])


def test_extreme_uniforms_pick_only_tokens_with_mass():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 1.0, -torch.inf]]).expand(2, -1)
    u_R = torch.tensor([0.0, 1 - 2.0**-48], dtype=torch.float64)
    tokens, _ = sample(logits, u_R, controls=Controls.of([SamplingParams()] * 2, vocab_size=5), vocab_size=5)
    assert tokens.tolist() == [1, 3]


def test_half_precision_logits_sample_in_fp32():
    tokens, logp = draw(SamplingParams(), count=10, logits=LOGITS.bfloat16())
    assert logp.dtype == torch.float32
    assert torch.equal(logp, torch.log_softmax(LOGITS[:VOCAB].bfloat16().float(), 0)[tokens])


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": 0}, "top_k"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
)
def test_wrong_parameters_name_the_key(wrong, key):
    with pytest.raises(ValueError, match=f"{key}="):
        SamplingParams(**wrong)

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fusedrl.models import logprob
from fusedrl.models.logprob import entropy, token_log_probs
from tests.distributed.pool import RankPool

JOBS = "tests.distributed.model_jobs"
REAL, PADDED = 11, 16


def case(seed: int = 0, *, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Logits [3, 5, PADDED] whose padding would win if it counted, targets [3, 5]."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(3, 5, PADDED, generator=generator, dtype=torch.float64)
    logits[..., REAL:] = 50.0
    return logits.to(dtype), torch.randint(0, REAL, (3, 5), generator=generator)


def reference(logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logp = (logits[..., :REAL] / temperature).log_softmax(-1)
    return logp.gather(-1, targets[..., None])[..., 0], -(logp.exp() * logp).sum(-1)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 100), st.sampled_from([0.5, 1.0, 1.7]), st.sampled_from([1, 64, 1 << 20]))
def test_values_and_gradients_equal_log_softmax(seed: int, temperature: float, chunk_bytes: int) -> None:
    logits, targets = case(seed)
    weights = torch.linspace(0.5, 1.5, 15, dtype=torch.float64).view(3, 5)
    options = {"tp_group": None, "vocab_size": REAL, "temperature": temperature}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logprob, "CHUNK_BYTES", chunk_bytes)
        for index in range(2):
            ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
            result = entropy(ours, **options) if index else token_log_probs(ours, targets, **options)
            expected = reference(theirs, targets, temperature)[index]
            torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
            (result * weights).sum().backward()
            (expected * weights).sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_slices_of_the_vocabulary_equal_the_whole(ranks: RankPool, world: int) -> None:
    logits, targets = case()
    found = ranks.run(
        f"{JOBS}:sharded_log_probs",
        world=world,
        logits=logits.tolist(),
        targets=targets.tolist(),
        vocab_size=REAL,
        temperature=0.7,
    )
    weights = torch.linspace(0.5, 1.5, 15, dtype=torch.float64).view(3, 5)
    for index, name in enumerate(("logp", "entropy")):
        whole = logits.clone().requires_grad_()
        expected = reference(whole, targets, 0.7)[index]
        (expected * weights).sum().backward()
        for rank in range(world):
            np.testing.assert_allclose(found[rank][name], expected.detach().numpy(), rtol=1e-12, atol=1e-12)
        gradient = np.concatenate([of_rank[f"{name}_grad"] for of_rank in found], axis=-1)
        np.testing.assert_allclose(gradient, whole.grad.numpy(), rtol=1e-11, atol=1e-12)


def test_result_is_float32_and_gradient_has_the_logits_type() -> None:
    logits, targets = case(dtype=torch.bfloat16)
    logits.requires_grad_()
    logp = token_log_probs(logits, targets, tp_group=None, vocab_size=REAL)
    logp.sum().backward()
    assert logp.dtype == torch.float32
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16
    expected = reference(logits.detach().float(), targets, 1.0)[0]
    torch.testing.assert_close(logp.detach(), expected, rtol=1e-5, atol=1e-5)


def test_a_token_does_not_depend_on_the_batch_it_sits_in() -> None:
    logits, targets = case(dtype=torch.float32)
    options = {"tp_group": None, "vocab_size": REAL}
    whole = token_log_probs(logits, targets, **options)
    assert torch.equal(whole[1:2], token_log_probs(logits[1:2], targets[1:2], **options))


def test_no_float32_copy_of_all_logits_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logprob, "CHUNK_BYTES", 64)
    logits, targets = case(dtype=torch.bfloat16)
    logits.requires_grad_()
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        token_log_probs(logits, targets, tp_group=None, vocab_size=REAL)
        entropy(logits, tp_group=None, vocab_size=REAL)
    assert all(t.numel() <= 15 or t.dtype == torch.bfloat16 for t in kept)
    assert kept


def test_gradients_pass_numerical_check() -> None:
    logits, targets = case()
    small = logits[:1, :2].clone().requires_grad_()
    options = {"tp_group": None, "vocab_size": REAL, "temperature": 1.3}
    assert torch.autograd.gradcheck(lambda x: token_log_probs(x, targets[:1, :2], **options), (small,))
    assert torch.autograd.gradcheck(lambda x: entropy(x, **options), (small,))


def test_temperature_of_zero_is_refused() -> None:
    logits, targets = case()
    with pytest.raises(ValueError, match="temperature=0"):
        token_log_probs(logits, targets, tp_group=None, vocab_size=REAL, temperature=0.0)

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.distributed import trainer_jobs as jobs
from tests.distributed.pool import RankPool


def reference_logp_and_entropy(folder: str) -> tuple[torch.Tensor, torch.Tensor]:
    """By Hugging Face, one sample at a time, no padding."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    samples = jobs.random_samples(8)
    logp_BR, entropy_BR = torch.zeros(8, jobs.WIDTH), torch.zeros(8, jobs.WIDTH)
    for b in range(8):
        prompt, response = int(samples.prompt_lengths_B[b]), int(samples.response_lengths_B[b])
        tokens_S = samples.tokens_BS[b, : prompt + response]
        with torch.no_grad():
            logits_SV = model(tokens_S[None]).logits[0] / 0.7
        logp_RV = logits_SV.log_softmax(-1)[prompt - 1 : -1]
        logp_BR[b, :response] = logp_RV.gather(1, tokens_S[prompt:, None])[:, 0]
        entropy_BR[b, :response] = -(logp_RV.exp() * logp_RV).sum(-1)
    return logp_BR, entropy_BR


ACTOR = "tests.fusedrl.trainers.actor_jobs:"
BY_SAMPLES, BY_TOKENS = (0, 0, 0), (12, 30, 17)
PLAIN: dict[str, Any] = {}
SHARED_ROWS, PACKED_ROWS = {"context_parallel_size": 2}, {"use_remove_padding": True}


@pytest.mark.parametrize(
    ("world", "tp", "pp", "ref_pp", "tokens", "keys"),
    [
        (2, 1, 2, 1, BY_SAMPLES, PLAIN),
        (4, 1, 2, 2, BY_SAMPLES, PLAIN),
        (4, 2, 2, 4, BY_SAMPLES, PLAIN),
        (4, 1, 2, 1, BY_TOKENS, PLAIN),
        (4, 1, 2, 1, BY_SAMPLES, SHARED_ROWS),
        (2, 2, 1, 2, BY_TOKENS, PACKED_ROWS),
    ],
)
def test_log_probs_of_every_layout_equal_hugging_face(
    ranks: RankPool,
    tmp_path: Path,
    world: int,
    tp: int,
    pp: int,
    ref_pp: int,
    tokens: tuple[int, ...],
    keys: dict[str, Any],
) -> None:
    folder = jobs.folder_of(tmp_path)
    sizes = {"tp": tp, "pp": pp, "ref_pp": ref_pp, "tokens": tokens, "keys": keys}
    results = ranks.run("tests.distributed.trainer_jobs:infer_all", world=world, folder=folder, **sizes)
    logp_BR, entropy_BR = reference_logp_and_entropy(folder)
    assert all(result == results[0] for result in results[1:])
    found = {name: torch.tensor(value) for name, value in results[0].items()}
    torch.testing.assert_close(found["logp"], logp_BR, atol=1e-5, rtol=0)
    torch.testing.assert_close(found["ref_logp"], logp_BR, atol=1e-5, rtol=0)
    torch.testing.assert_close(found["entropy"], entropy_BR, atol=1e-5, rtol=0)
    assert torch.equal(found["values"], torch.zeros(8, jobs.WIDTH))  # a fresh value head is zero


def test_log_probs_do_not_depend_on_the_micro_batches(ranks: RankPool, tmp_path: Path) -> None:
    """By numbers of samples and by budgets of tokens, in ragged micro-batches with more and less padding."""
    cuts = {"micro_batches": (1, 2, 4, 8), "budgets": (12, 30)}
    (alone, *others), _ = ranks.run(ACTOR + "log_probs_by_cut", world=2, folder=jobs.folder_of(tmp_path), **cuts)
    assert abs(alone).max() > 1
    for other in others:
        torch.testing.assert_close(torch.tensor(other), torch.tensor(alone), atol=1e-6, rtol=2e-6)

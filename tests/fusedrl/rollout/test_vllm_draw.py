"""Rows follow vLLM's batch, and each keeps exactly the token that the built-in engine's sampling draws."""

from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fusedrl.rollout.randomness import sample_keys, uniform
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import Controls, SamplingParams, sample
from fusedrl.rollout.vllm_draw import Draw, extra_args

VOCAB = 50
KINDS = [
    SamplingParams(temperature=0),
    SamplingParams(seed=7),
    SamplingParams(seed=7, temperature=0.6, top_k=9, top_p=0.7, step=3),
]
REQUESTS = [Request(sample_id=i, prompt=(1,) * (2 + i), params=params) for i, params in enumerate(KINDS)]


class Way(Enum):
    UNIDIRECTIONAL = 1
    SWAP = 2


def change(*, added: Any = (), removed: Any = (), moved: Any = ()) -> Any:
    return SimpleNamespace(added=added, removed=removed, moved=moved)


def enter(index: int, request: Request, output: list[int]) -> tuple[int, Any, list[int], list[int]]:
    return index, SimpleNamespace(extra_args=extra_args(request)), list(request.tokens), output


def drawn(request: Request, logits_V: torch.Tensor, *, output: list[int]) -> tuple[int, float]:
    """What the built-in engine would take and report."""
    key_R = sample_keys([(request.params.seed, request.params.step, request.sample_id)])
    uniform_R = uniform(key_R, torch.tensor([len(request.tokens) + len(output)]))
    controls = Controls.of([request.params], vocab_size=VOCAB)
    token_R, logp_R = sample(logits_V[None], uniform_R, controls=controls, vocab_size=VOCAB)
    return int(token_R), float(logp_R)


def assert_draws(draw: Draw, rows: list[tuple[Request, list[int]]]) -> None:
    logits_RV = torch.randn(len(rows), VOCAB, generator=torch.Generator().manual_seed(len(rows[0][1])))
    found_RV = draw.apply(logits_RV.clone())
    for row, (request, output) in enumerate(rows):
        token, logp = drawn(request, logits_RV[row], output=output)
        assert torch.isfinite(found_RV[row]).nonzero().flatten().tolist() == [token]
        assert float(found_RV[row, token]) == logp


def test_each_row_keeps_its_drawn_token_and_log_probability_alone():
    draw, outputs = Draw(), [list[int]() for _ in REQUESTS]
    draw.update(change(added=[enter(i, request, outputs[i]) for i, request in enumerate(REQUESTS)]))
    for token in range(6):  # vLLM's lists of output tokens grow from step to step
        assert_draws(draw, list(zip(REQUESTS, outputs, strict=True)))
        draw.update(None)
        for output in outputs:
            output.append(token)


def test_a_sample_that_comes_back_with_its_tokens_draws_what_it_would_have_drawn():
    stayed, returned = REQUESTS[1], Request(**{**vars(REQUESTS[1]), "response": (4, 5), "logprobs": (-1.0, -1.0)})
    logits_1V = torch.randn(1, VOCAB)
    found = []
    for request, output in ((stayed, [4, 5]), (returned, [])):
        draw = Draw()
        draw.update(change(added=[enter(0, request, output)]))
        found.append(draw.apply(logits_1V.clone()))
    assert torch.equal(*found)


def test_rows_follow_removals_swaps_and_moves():
    draw, outputs = Draw(), [list[int]() for _ in REQUESTS]
    a, b, c = zip(REQUESTS, outputs, strict=True)
    draw.update(change(added=[enter(i, *pair) for i, pair in enumerate((a, b, c))]))
    draw.update(change(moved=[(0, 2, Way.SWAP)]))
    assert_draws(draw, [c, b, a])
    draw.update(change(removed=[0], moved=[(2, 0, Way.UNIDIRECTIONAL)]))
    assert_draws(draw, [a, b])
    draw.update(change(removed=[1], added=[enter(1, *c)]))
    assert_draws(draw, [a, c])
    draw.update(change(removed=[0, 1]))
    with pytest.raises(KeyError):  # nothing is left of them
        draw.apply(torch.zeros(1, VOCAB))

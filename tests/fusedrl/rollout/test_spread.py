"""Shares are even, complete, deterministic, and keep samples of a prompt together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.rollout.requests import samples_of
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.spread import assign


@given(
    lengths=st.lists(st.integers(1, 40), min_size=0, max_size=12),
    n=st.integers(1, 5),
    replicas=st.integers(1, 6),
)
def test_shares_are_complete_and_even(lengths, n, replicas):
    requests = samples_of([(i,) * length for i, length in enumerate(lengths)], n=n, params=SamplingParams())
    shares = assign(requests, replicas=replicas)
    counts = [len(share) for share in shares]
    assert len(shares) == replicas
    assert max(counts) - min(counts) <= 1
    assert sorted(r.sample_id for share in shares for r in share) == [r.sample_id for r in requests]


@given(prompts=st.integers(1, 12), n=st.integers(1, 6), replicas=st.integers(1, 6))
def test_few_prompts_are_split(prompts, n, replicas):
    requests = samples_of([(i,) for i in range(prompts)], n=n, params=SamplingParams())
    seats = sum(len({r.prompt for r in share}) for share in assign(requests, replicas=replicas))
    assert seats <= prompts + replicas - 1


def test_prefill_work_is_balanced_where_counts_are_equal():
    lengths = [10, 100, 10, 100]
    requests = samples_of([(i,) * n for i, n in enumerate(lengths)], n=1, params=SamplingParams(max_tokens=1))
    assert [sum(len(r.prompt) for r in share) for share in assign(requests, replicas=2)] == [110, 110]


@pytest.mark.parametrize("tp", [1, 2])
def test_every_rank_gets_every_sample(ranks, checkpoint, tp):
    params = SamplingParams(max_tokens=5, seed=1)
    requests = samples_of([(1, 2), (3,), (4, 5, 6)], n=3, params=params)
    jobs = "tests.distributed.rollout_jobs:"
    ((alone, _),) = ranks.run(jobs + "generate", world=1, folder=checkpoint("llama"), requests=requests)
    for completions in ranks.run(jobs + "spread", world=4, folder=checkpoint("llama"), requests=requests, tp=tp):
        assert [(c.sample_id, c.prompt, c.tokens) for c in completions] == [
            (c.sample_id, c.prompt, c.tokens) for c in alone
        ]
        for ours, theirs in zip(completions, alone, strict=True):
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5)


def test_more_replicas_than_samples(ranks, checkpoint):
    requests = samples_of([(1, 2)], n=2, params=SamplingParams(max_tokens=3))
    for completions in ranks.run(
        "tests.distributed.rollout_jobs:spread", world=4, folder=checkpoint("llama"), requests=requests, tp=1
    ):
        assert [c.sample_id for c in completions] == [0, 1]

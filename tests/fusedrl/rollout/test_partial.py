"""Samples that are left keep what they have and go on; where generation ends is the same on all ranks."""

from collections.abc import Callable

from fusedrl.rollout.partial import CHECK_STEPS
from fusedrl.rollout.requests import samples_of
from fusedrl.rollout.sampling import SamplingParams
from tests.distributed.pool import RankPool


def test_parts_make_the_samples_that_one_run_makes(ranks: RankPool, checkpoint: Callable[[str], str]) -> None:
    """Over two replicas of two stages, more samples than rows. No weights change, so neither do tokens."""
    lengths = [4, 30, 12, 25, 2, 40]
    prompts = [(1, 2), (3,), (4, 5, 6), (7,), (8, 9), (10,)]
    requests = [
        request
        for i, (prompt, tokens) in enumerate(zip(prompts, lengths, strict=True))
        for request in samples_of({i: prompt}, n=2, params=SamplingParams(max_tokens=tokens, seed=1))
    ]
    found = ranks.run(
        "tests.fusedrl.rollout.partial_jobs:in_parts",
        world=4,
        folder=checkpoint("llama"),
        requests=requests,
        enough=[3, 2, 100],
        pp=2,
        max_rows=4,
    )
    done, left, whole = found[0]
    assert all(each == found[0] for each in found)
    assert [len(each) >= least for each, least in zip(done, (3, 2, 0), strict=True)] == [True] * 3
    assert [len(each) + len(rest) for each, rest in zip(done, left, strict=True)] == [12, len(left[0]), len(left[1])]
    assert 0 == len(left[2]) < len(left[1]) < len(left[0]) <= 12 - 3
    responses = [len(each.response) for each in left[0]]
    assert max(responses) >= CHECK_STEPS
    assert min(responses) == 0  # it had no row yet
    after = {each.sample_id: each for each in (*done[1], *left[1])}
    for request in left[0]:
        assert after[request.sample_id].logprobs[: len(request.response)] == request.logprobs
    together = sorted((each for part in done for each in part), key=lambda c: c.sample_id)
    assert [(each.tokens, each.finish_reason) for each in together] == [
        (each.tokens, each.finish_reason) for each in whole
    ]

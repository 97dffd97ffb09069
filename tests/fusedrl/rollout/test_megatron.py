"""The engine's tokens are Hugging Face's, its log-probs the trainer's, and a sample depends on its request alone."""

from dataclasses import replace

import pytest

from fusedrl.rollout.requests import Request, samples_of
from fusedrl.rollout.sampling import SamplingParams
from tests.fusedrl.rollout import tiny

JOBS = "tests.distributed.rollout_jobs:"
LENGTHS = (3, 17, 1, 9, 30, 5, 5, 12, 25, 2)
PROMPTS = [tuple((7 * i + 13 * j * j) % tiny.VOCAB for j in range(n)) for i, n in enumerate(LENGTHS)]
GREEDY = SamplingParams(temperature=0, max_tokens=12)
SAMPLED = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, max_tokens=12, seed=3)


def requests(params: SamplingParams) -> list[Request]:
    return samples_of(PROMPTS, n=1, params=params)


def of_unequal_length(wanted: list[Request]) -> list[Request]:
    """Rows that end at different steps, so that gaps appear among the live ones."""
    return [replace(r, params=replace(r.params, max_tokens=3 + 5 * r.sample_id % 9)) for r in wanted]


def check_against_hugging_face(folder: str, asked: list[Request], completions) -> None:
    expected = tiny.hugging_face_greedy(folder, PROMPTS, tokens=GREEDY.max_tokens)
    for request, completion, (tokens, logprobs) in zip(asked, completions, expected, strict=True):
        length = request.params.max_tokens
        assert list(completion.tokens) == tokens[:length]
        assert completion.logprobs == pytest.approx(logprobs[:length], abs=1e-4)
        assert completion.finish_reason == "length"


@pytest.mark.parametrize("family", list(tiny.FAMILIES))
def test_greedy_equals_hugging_face(ranks, checkpoint, family):
    folder = checkpoint(family)
    # 4 rows for 10 prompts of unequal length: rows leave and join all the time
    asked = of_unequal_length(requests(GREEDY))
    ((completions, _),) = ranks.run(JOBS + "generate", world=1, folder=folder, requests=asked, max_rows=4)
    check_against_hugging_face(folder, asked, completions)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "llama_tied_mha"])
def test_greedy_on_two_tensor_ranks_equals_hugging_face(ranks, checkpoint, family):
    folder = checkpoint(family)
    asked = of_unequal_length(requests(GREEDY))
    for completions, _ in ranks.run(JOBS + "generate", world=2, folder=folder, requests=asked, tp=2):
        check_against_hugging_face(folder, asked, completions)


@pytest.mark.parametrize("tp", [1, 2])
def test_sampled_logprobs_equal_the_trainers(ranks, checkpoint, tp):
    folder = checkpoint("qwen2")
    completions = ranks.run(JOBS + "generate", world=tp, folder=folder, requests=requests(SAMPLED), tp=tp)[0][0]
    trainer = ranks.run(
        JOBS + "trainer_logprobs", world=tp, folder=folder, completions=completions, tp=tp, temperature=0.8
    )[0]
    for completion, expected in zip(completions, trainer, strict=True):
        assert completion.logprobs == pytest.approx(expected, abs=1e-4)


def test_samples_do_not_depend_on_the_batch(ranks, checkpoint):
    wanted = of_unequal_length(samples_of(PROMPTS, n=3, params=SAMPLED))
    kwargs = {"world": 1, "folder": checkpoint("llama")}
    ((together, _),) = ranks.run(JOBS + "generate", requests=wanted, max_rows=32, **kwargs)
    ((few_rows, _),) = ranks.run(JOBS + "generate", requests=wanted[::-1], max_rows=2, **kwargs)
    ((tensor_parallel, _), _) = ranks.run(JOBS + "generate", requests=wanted, tp=2, world=2, folder=checkpoint("llama"))
    assert len({c.tokens for c in together}) > len(PROMPTS)  # the copies of a prompt differ
    for other in (few_rows, tensor_parallel):
        assert [c.tokens for c in other] == [c.tokens for c in together]


def test_seed_and_step_change_the_samples(ranks, checkpoint):
    kwargs = {"world": 1, "folder": checkpoint("llama")}
    drawn = [
        ranks.run(JOBS + "generate", requests=requests(params), **kwargs)[0][0]
        for params in (SAMPLED, SAMPLED.at_step(1), replace(SAMPLED, seed=4))
    ]
    assert len({tuple(c.tokens for c in completions) for completions in drawn}) == 3


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_interrupted_samples_equal_uninterrupted(ranks, checkpoint, params):
    kwargs = {"world": 1, "folder": checkpoint("llama"), "requests": samples_of(PROMPTS, n=2, params=params)}
    ((whole, _),) = ranks.run(JOBS + "generate", **kwargs)
    for seed in range(3):
        (moved,) = ranks.run(JOBS + "generate_interrupted", seed=seed, **kwargs)
        assert [c.tokens for c in moved] == [c.tokens for c in whole]
        for ours, theirs in zip(moved, whole, strict=True):
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_stop_tokens_cut_where_they_first_appear(ranks, checkpoint):
    kwargs = {"world": 1, "folder": checkpoint("llama")}
    ((whole, _),) = ranks.run(JOBS + "generate", requests=requests(GREEDY), **kwargs)
    first = {c.tokens[0] for c in whole[:3]}  # for these samples the first token stops: EOS first
    later = {whole[4].tokens[5]}
    stopping = replace(GREEDY, stop_token_ids=frozenset(first | later))
    ((cut, _),) = ranks.run(JOBS + "generate", requests=requests(stopping), **kwargs)
    for before, after in zip(whole, cut, strict=True):
        ends = [i for i, token in enumerate(before.tokens) if token in stopping.stop_token_ids]
        assert after.tokens == before.tokens[: ends[0] + 1 if ends else None]
        assert after.finish_reason == ("stop" if ends else "length")
    assert [len(c.tokens) for c in cut[:3]] == [1, 1, 1]


def test_samples_without_room_come_back_empty(ranks, checkpoint):
    long = tuple(range(20))
    asked = [
        Request(sample_id=0, prompt=long, params=GREEDY),  # already at max_length
        Request(sample_id=1, prompt=(*long, 1, 2), params=GREEDY),  # beyond it
        Request(sample_id=2, prompt=long[:17], params=GREEDY),  # room for three
        Request(sample_id=3, prompt=long[:4], params=replace(GREEDY, max_tokens=0)),
    ]
    ((done, _),) = ranks.run(JOBS + "generate", world=1, folder=checkpoint("llama"), requests=asked, max_length=20)
    assert [len(c.tokens) for c in done] == [0, 0, 3, 0]
    assert all(c.finish_reason == "length" for c in done)


def test_copies_of_a_prompt_share_its_prefill(ranks, checkpoint):
    wanted = samples_of(PROMPTS[:3], n=4, params=SAMPLED)
    ((shared, stats),) = ranks.run(JOBS + "generate", world=1, folder=checkpoint("llama"), requests=wanted)
    assert stats["prefill_tokens"] == sum(LENGTHS[:3])
    alone = [
        ranks.run(JOBS + "generate", world=1, folder=checkpoint("llama"), requests=[request])[0][0][0]
        for request in wanted[::5]
    ]
    assert [c.tokens for c in alone] == [c.tokens for c in shared[::5]]


def test_misuse_is_refused(ranks, checkpoint):
    (messages,) = ranks.run(JOBS + "misuse", world=1, folder=checkpoint("llama"))
    assert messages == [
        "sample 0 is already in flight",
        "generate() on an engine with 2 unfinished samples: step() these first",
        "samples [7] are not in flight",
        "weights change under 2 half-generated samples: finish or extract() them",
        "the cache holds 2 half-generated samples: finish or extract() them",
    ]

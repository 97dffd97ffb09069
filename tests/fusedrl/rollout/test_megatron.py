"""The engine's tokens are Hugging Face's, its log-probs the trainer's, and a sample depends on its request alone."""

import random
from dataclasses import replace
from functools import cache

import pytest

from fusedrl.rollout.requests import Request, samples_of
from fusedrl.rollout.sampling import SamplingParams
from tests.distributed.rollout_jobs import MAX_LENGTH
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


def check_against_hugging_face(asked: list[Request], expected, completions) -> None:
    for request, completion in zip(asked, completions, strict=True):
        tokens, logprobs = expected[request.sample_id % len(PROMPTS)]
        length = request.params.max_tokens
        stops = [i for i, token in enumerate(tokens[:length]) if token in request.params.stop_token_ids]
        length = stops[0] + 1 if stops else length
        assert list(completion.tokens) == tokens[:length]
        assert completion.logprobs == pytest.approx(logprobs[:length], abs=1e-4)
        assert completion.finish_reason == ("stop" if stops else "length")


def with_and_without_end(expected) -> list[Request]:
    """Each prompt to its own length, and again with two tokens that end it: one of a first place, one of a later."""
    plain = of_unequal_length(requests(GREEDY))
    ends = frozenset({expected[0][0][0], expected[4][0][5]})
    ending = [replace(r, params=replace(GREEDY, stop_token_ids=ends)) for r in plain]
    return plain + [replace(r, sample_id=r.sample_id + len(PROMPTS)) for r in ending]


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_greedy_equals_hugging_face_in_every_layout(ranks, checkpoint, tp, pp):
    expected = {family: hugging_face(checkpoint(family)) for family in tiny.FAMILIES}
    asked = {family: with_and_without_end(expected[family]) for family in tiny.FAMILIES}
    pairs = [(checkpoint(family), asked[family]) for family in tiny.FAMILIES]
    # 4 rows for 20 samples of unequal length: rows leave and join all the time
    for of_rank in ranks.run(JOBS + "generate_each", world=tp * pp, asked=pairs, tp=tp, pp=pp, max_rows=4):
        for family, completions in zip(tiny.FAMILIES, of_rank, strict=True):
            check_against_hugging_face(asked[family], expected[family], completions)


@cache
def hugging_face(folder: str) -> list[tuple[list[int], list[float]]]:
    return tiny.hugging_face_greedy(folder, PROMPTS, tokens=GREEDY.max_tokens)


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


def greedy_and_sampled() -> list[Request]:
    drawn = [replace(r, sample_id=r.sample_id + len(PROMPTS), params=SAMPLED) for r in requests(GREEDY)]
    return of_unequal_length([*requests(GREEDY), *drawn])


def check_equal(ours, theirs) -> None:
    assert [(c.sample_id, c.tokens, c.finish_reason) for c in ours] == [
        (c.sample_id, c.tokens, c.finish_reason) for c in theirs
    ]
    for one, other in zip(ours, theirs, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.parametrize(
    ("tp", "pp", "with_cache"), [(1, 1, False), (1, 1, True), (2, 1, True), (1, 2, False), (1, 2, True)]
)
def test_interrupted_samples_equal_uninterrupted(ranks, checkpoint, tp, pp, with_cache):
    asked = {"folder": checkpoint("llama"), "requests": greedy_and_sampled(), "tp": tp, "pp": pp}
    whole = ranks.run(JOBS + "generate", world=tp * pp, **asked)[0][0]
    for seed in range(2):
        tokens = 4 * MAX_LENGTH if seed else None
        moving = {"seed": seed, "with_cache": with_cache, "max_tokens": tokens}
        results = ranks.run(JOBS + "generate_interrupted", world=tp * pp, **asked, **moving)
        for moved, _ in results:
            check_equal(moved, whole)
        stats = [stats for _, both in results for stats in both]
        left, came = (sum(s[f"cache_bytes_{way}"] for s in stats) for way in ("out", "in"))
        assert left == came
        assert (left > 0) == with_cache


@pytest.mark.parametrize("pp", [1, 2])
def test_any_cache_gives_the_same_tokens(ranks, checkpoint, pp):
    """Random budgets: rows give way, come back, and every token stays."""
    chance, longest = random.Random(pp), 72
    wanted = [replace(r, params=replace(r.params, max_tokens=40 - r.sample_id)) for r in greedy_and_sampled()]
    budgets = [None, pp * longest, *(chance.randint(pp * longest, pp * 4 * longest) for _ in range(5))]
    sizes = {"budgets": budgets, "max_length": longest, "max_rows": 8, "pp": pp}
    for results in ranks.run(
        JOBS + "generate_with_budgets", world=pp, folder=checkpoint("llama"), requests=wanted, **sizes
    ):
        (whole, free), *bounded = results
        assert free["preempted"] == 0
        assert sum(stats["preempted"] for _, stats in bounded) > 5
        for completions, _ in bounded:
            check_equal(completions, whole)


@pytest.mark.parametrize("batches", [1, 3])
def test_batches_in_flight_change_no_token(ranks, checkpoint, batches):
    asked = {"folder": checkpoint("llama"), "requests": greedy_and_sampled()}
    ((whole, _),) = ranks.run(JOBS + "generate", world=1, **asked)
    for completions, _ in ranks.run(JOBS + "generate", world=2, pp=2, batches=batches, max_rows=9, **asked):
        check_equal(completions, whole)


def test_four_stages_pass_tokens_on(ranks, checkpoint):
    asked = {"folder": checkpoint("llama_tied_mha"), "requests": greedy_and_sampled()}
    ((whole, _),) = ranks.run(JOBS + "generate", world=1, **asked)
    for completions, _ in ranks.run(JOBS + "generate", world=4, pp=4, max_rows=8, **asked):
        check_equal(completions, whole)


def test_a_later_copy_of_a_prompt_takes_the_keys_of_a_live_row(ranks, checkpoint):
    kwargs = {"world": 1, "folder": checkpoint("llama")}
    wanted = of_unequal_length(samples_of(PROMPTS[:2], n=4, params=SAMPLED))
    ((together, _),) = ranks.run(JOBS + "generate", requests=wanted, **kwargs)
    ((in_turn, stats),) = ranks.run(JOBS + "generate", requests=wanted, max_rows=2, **kwargs)
    check_equal(in_turn, together)
    assert stats["shared_tokens"] > 0
    assert stats["prefill_tokens"] + stats["shared_tokens"] < 4 * sum(LENGTHS[:2])


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
        "rollout.max_total_tokens=190 gives each of 2 batches in flight a cache of 95 tokens, but one sample may have "
        "96 (prompt and response); make it at least 192",
        "sample 5 comes with 1 cached tokens; of its 3 tokens all but the last must be there",
        "cached tokens of shape (4, 2, 2, 2, 8) (torch.float64) do not fit this engine, which takes (4, 2, 2, 2, 8) "
        "(torch.float32) for 2 tokens: move them between engines of one model and layout, or let add() prefill the "
        "requests anew",
    ]

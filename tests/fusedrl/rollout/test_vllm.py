"""The vLLM engine generates what the built-in engine and Hugging Face generate, on vLLM itself."""

from collections.abc import Callable
from typing import Any

import pytest

from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.vllm_library import problem
from tests.distributed.pool import RankPool
from tests.fusedrl.rollout import tiny

pytestmark = pytest.mark.skipif(problem() is not None, reason="needs vLLM: launch/test_vllm.sh runs these")

JOBS = "tests.distributed.vllm_jobs:"
PROMPTS = [(1, 2, 3), (50, 290), tuple(range(10, 25)), (1, 2, 3)]
GREEDY = SamplingParams(temperature=0, max_tokens=8)
DRAWN = SamplingParams(seed=3, step=2, max_tokens=12, stop_token_ids=frozenset(range(0, 300, 9)))
COOL = SamplingParams(seed=3, temperature=0.7, top_k=20, top_p=0.8, max_tokens=12)
KINDS = (GREEDY, DRAWN, COOL)


def requests() -> list[Request]:
    """Each prompt greedy, drawn and drawn with truncation; ids 10 x prompt + kind."""
    pairs = [(10 * i + k, prompt, params) for i, prompt in enumerate(PROMPTS) for k, params in enumerate(KINDS)]
    return [Request(sample_id=number, prompt=prompt, params=params) for number, prompt, params in pairs]


@pytest.fixture(scope="module")
def facts(ranks: RankPool, checkpoint: Callable[[str], str]) -> Callable[..., list[dict[str, Any]]]:
    """What every rank found in one family and layout; each is run once."""
    found: dict[str, list[dict[str, Any]]] = {}

    def of(family: str, *, world: int = 1, **options: Any) -> list[dict[str, Any]]:
        name = f"{family} {world} {options}"
        if name not in found:
            folder = checkpoint(f"{family}_wide")
            job = {"folder": folder, "requests": requests(), **options}
            found[name] = ranks.run(JOBS + "both_engines", world=world, limit=240, **job)
        return found[name]

    return of


def thorough(facts: Callable[..., list[dict[str, Any]]]) -> dict[str, Any]:
    """The family that all properties are looked at on."""
    return facts("llama", temperatures=(1.0, 0.7), moves=True)[0]


def assert_equal(found: list[Completion], expected: list[Completion]) -> None:
    """Tokens and reasons are the same, log-probabilities to the rounding of fp32."""
    for one, other in zip(found, expected, strict=True):
        assert (one.sample_id, one.tokens, one.finish_reason) == (other.sample_id, other.tokens, other.finish_reason)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.parametrize("family", ["llama", "llama_tied_mha", "qwen2", "qwen3"])
def test_greedy_tokens_equal_hugging_face(facts, checkpoint, family):
    found = (thorough(facts) if family == "llama" else facts(family)[0])["vllm"]
    expected = tiny.hugging_face_greedy(checkpoint(f"{family}_wide"), PROMPTS, tokens=GREEDY.max_tokens)
    for completion, (tokens, logprobs) in zip(found[:: len(KINDS)], expected, strict=True):
        assert list(completion.tokens) == tokens
        assert completion.logprobs == pytest.approx(logprobs, abs=1e-4)


@pytest.mark.parametrize("family", ["llama", "llama_tied_mha", "qwen2", "qwen3"])
def test_greedy_and_drawn_tokens_equal_the_built_in_engines(facts, family):
    found = thorough(facts) if family == "llama" else facts(family)[0]
    assert_equal(found["vllm"], found["megatron"])
    reasons = {completion.finish_reason for completion in found["vllm"]}
    assert reasons == {"stop", "length"}


def test_drawn_tokens_are_not_the_greedy_ones(facts):
    kinds = [tuple(c.tokens[:4] for c in thorough(facts)["vllm"][kind :: len(KINDS)]) for kind in range(len(KINDS))]
    assert len(set(kinds)) == len(KINDS)


def test_a_stop_token_ends_a_response_and_belongs_to_it(facts):
    stopped = [c for c in thorough(facts)["vllm"] if c.finish_reason == "stop"]
    assert stopped
    for completion in stopped:
        assert completion.tokens[-1] in DRAWN.stop_token_ids
        assert not DRAWN.stop_token_ids.intersection(completion.tokens[:-1])


def test_hand_over_of_new_weights_changes_the_outputs_to_theirs(facts):
    found = thorough(facts)
    assert_equal(found["vllm_again"], found["megatron_again"])
    assert [c.tokens for c in found["vllm"]] != [c.tokens for c in found["vllm_again"]]


def test_log_probs_equal_the_trainers(facts):
    found = thorough(facts)
    for index, completion in enumerate(found["vllm"]):
        temperature = KINDS[index % len(KINDS)].temperature or 1.0
        assert completion.logprobs == pytest.approx(found["trainer"][temperature][index], abs=1e-4)


def test_samples_taken_out_and_put_back_keep_every_token(facts):
    assert_equal(thorough(facts)["interrupted"], thorough(facts)["vllm"])


def test_the_process_keeps_its_random_state(facts):
    assert thorough(facts)["same_random_state"]


def test_wrong_calls_are_refused(ranks, checkpoint):
    (said,) = ranks.run(JOBS + "misuse", world=1, folder=checkpoint("llama_wide"))
    words = ("no weights", "already in flight", "unfinished samples", "[7]", "half-generated", "half-generated")
    for word, message in zip(words, said, strict=True):
        assert word in message


@pytest.mark.parametrize(
    ("layout", "tp"), [({"tp": 2}, 2), ({"pp": 2}, 2), ({"pp": 2}, 1)], ids=["tp2_to_tp2", "pp2_to_tp2", "pp2_to_dp2"]
)
def test_two_ranks_generate_what_one_generates(facts, layout, tp):
    alone = facts("qwen3")[0]
    for found in facts("qwen3", world=2, layout=layout, tp=tp):
        for name in ("vllm", "vllm_again"):
            assert_equal(found[name], alone[name])
        assert found["report"]["bytes_received"] > 0
        assert found["report"]["seconds"] > 0

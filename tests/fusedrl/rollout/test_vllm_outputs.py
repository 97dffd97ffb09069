"""What the engine reads from vLLM's answers; vLLM itself is not needed for that."""

from types import SimpleNamespace
from typing import Any

from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.vllm import VllmEngine, _Seated


def taken(*steps: tuple[list[int], list[dict[int, float]]]) -> tuple[list[int], list[float]]:
    """Tokens and log-probabilities of sample 5 after vLLM's answers: new tokens, and what it tells at each."""
    engine: Any = object.__new__(VllmEngine)
    engine._seated = {5: _Seated(Request(sample_id=5, prompt=(1,), params=SamplingParams()))}
    for token_ids, told in steps:
        at = [{token: SimpleNamespace(logprob=logprob) for token, logprob in each.items()} for each in told]
        new = SimpleNamespace(token_ids=token_ids, logprobs=at)
        engine._take(SimpleNamespace(request_id="5", outputs=[new], finished=False))
    return engine._seated[5].tokens, engine._seated[5].logprobs


def test_log_probability_is_the_sampled_token_s_though_a_likelier_one_is_told_first() -> None:
    assert taken(([880], [{512: -0.10, 880: -2.30}])) == ([880], [-2.30])


def test_each_of_several_new_tokens_has_its_own() -> None:
    assert taken(([7, 8], [{8: -0.5, 7: -1.0}, {7: -0.25, 8: -3.0}]), ([7], [{7: -4.0}])) == (
        [7, 8, 7],
        [-1.0, -3.0, -4.0],
    )

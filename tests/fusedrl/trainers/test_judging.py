import pytest

from fusedrl.config.schema import GenerationConfig, ValidationSamplingConfig
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.judging import Judged, sample_lines, temperature_of
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.scoring import Verdict

ROWS = [PromptRow((5,), "a", "7", {}), PromptRow((6, 6), "b", ["8"], {})]
VERDICTS = [Verdict(0.5, acc=1.0, pred="7"), Verdict(0.0), Verdict(1.0), Verdict(-1.0, failure="timeout: none in 1 s")]


def completion(index: int) -> Completion:
    tokens = tuple(range(index + 1))
    prompt, reason = ROWS[index // 2].tokens, "length" if index == 3 else "stop"
    return Completion(
        sample_id=index, prompt=prompt, tokens=tokens, logprobs=(0.0,) * len(tokens), finish_reason=reason
    )


def judged(verdicts: list[Verdict] | None = VERDICTS) -> Judged:
    return Judged(ROWS, 2, [completion(index) for index in range(4)], verdicts)


def test_each_line_has_its_row_s_prompt_and_truth_and_what_the_function_said() -> None:
    lines = sample_lines(judged(), decode=lambda tokens: "".join(map(str, tokens)))
    first = {"index": 0, "sample": 0, "prompt": "5", "response": "0", "ground_truth": "7"}
    assert lines[0] == first | {"score": 0.5, "acc": 1.0, "pred": "7", "length": 1, "finish_reason": "stop"}
    last = {"index": 1, "sample": 1, "prompt": "66", "response": "0123", "ground_truth": ["8"]}
    told = {"score": -1.0, "failure": "timeout: none in 1 s"}
    assert [line["ground_truth"] for line in lines] == ["7", "7", ["8"], ["8"]]
    assert lines[3] == last | told | {"length": 4, "finish_reason": "length"}


def test_without_a_function_there_are_lengths_alone() -> None:
    found = judged(None)
    assert found.figures() == {}
    assert found.failed_calls == 0
    assert "score" not in sample_lines(found, decode=str)[0]
    assert judged().failed_calls == 1


def test_clip_ratio_is_the_share_without_an_end() -> None:
    assert judged().lengths() == {
        "val-aux/response_length/mean": 2.5,
        "val-aux/response_length/max": 4.0,
        "val-aux/response_length/min": 1.0,
        "val-aux/response_length/clip_ratio": 0.25,
    }


@pytest.mark.parametrize("schema", [GenerationConfig, ValidationSamplingConfig])
@pytest.mark.parametrize(("do_sample", "found"), [(None, 0.7), (True, 0.7), (False, 0.0)])
def test_without_sampling_the_temperature_does_not_count(schema: type, do_sample: bool | None, found: float) -> None:
    assert temperature_of(schema(do_sample=do_sample, temperature=0.7)) == found

import io

import pytest
from rich.console import Console

from fusedrl.rollout.requests import Completion
from fusedrl.trainers.counting import counting


def response(number: int, tokens: int) -> Completion:
    return Completion(
        sample_id=number, prompt=(1,), tokens=tuple(range(tokens)), logprobs=(0.0,) * tokens, finish_reason="stop"
    )


@pytest.mark.parametrize(("by_response", "counts"), [(True, ["3/4", "4/4"]), (False, ["1/4", "2/4"])])
def test_responses_or_rows_are_counted_with_their_tokens(by_response: bool, counts: list[str]) -> None:
    out = io.StringIO()
    with counting("row", total=4, by_response=by_response, console=Console(file=out, width=200)) as told:
        told([response(0, 2), response(1, 3), response(2, 0)])
        told([response(3, 1)])
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == counts
    assert all("tokens/s" in line and "left" in line for line in lines)


def test_other_ranks_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    out = io.StringIO()
    with counting("row", total=4, console=Console(file=out)) as told:
        told([response(0, 2)])
    assert out.getvalue() == ""

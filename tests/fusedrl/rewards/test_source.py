from pathlib import Path

import pytest

from fusedrl.rewards.function import InvalidScore, RewardFunctionError
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardSample
from fusedrl.rewards.source import Source

TWO = """
def right(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(solution_str == ground_truth), "acc": solution_str == ground_truth}

def short(data_source, solution_str, ground_truth, extra_info=None):
    return 1.0 - len(solution_str) / 10 if solution_str else None
"""


def source(folder: Path, **options: object) -> Source:
    (folder / "two.py").write_text(TWO)
    return Source(str(folder / "two.py"), **options)  # type: ignore[arg-type]


def test_several_functions_give_the_weighted_sum_and_each_part(tmp_path: Path) -> None:
    function = source(tmp_path, weights={"right": 1.0, "short": -0.5}).load(limit=1.0)
    arguments = {"data_source": "", "solution_str": "12", "ground_truth": "12"}
    assert function(**arguments) == {"score": 0.6, "acc": 1.0, "part/right": 1.0, "part/short": 0.8}
    with pytest.raises(InvalidScore, match="returned NoneType None"):
        function(**arguments | {"solution_str": ""})


def test_one_function_is_the_named_one_as_it_is(tmp_path: Path) -> None:
    assert source(tmp_path, name="short").load(limit=1.0)("", "12345", "") == 0.5


def test_a_worker_gets_the_source_it_was_started_with(tmp_path: Path) -> None:
    given = source(tmp_path, weights={"right": 0.25}, retries=7)
    assert Source.of_text(given.to_text()) == given
    with RewardRunner(given.path, weights={"right": 0.25, "short": 0.5}, workers=1) as runner:
        (found,) = runner.score([RewardSample("a", "", "12345", "12345")])
    assert (found.score, found.extra) == (0.5, {"acc": 1.0, "part/right": 1.0, "part/short": 0.5})


def test_weights_of_what_is_not_there_and_of_a_server_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RewardFunctionError,
        match=r"^custom_reward_function\.weights=long: .* has no such name; it defines right, short",
    ):
        source(tmp_path, weights={"long": 1.0}).load(limit=1.0)
    with pytest.raises(ValueError, match=r"weights.right is inf"):
        source(tmp_path, weights={"right": float("inf")}).checked()
    with pytest.raises(RewardFunctionError, match=r"is a server; weights belong to functions of a file"):
        Source("http://host/", weights={"right": 1.0}).checked()
    with pytest.raises(RewardFunctionError, match="nothing there"):
        Source(str(tmp_path / "none.py")).checked()

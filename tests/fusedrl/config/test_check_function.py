from pathlib import Path

import pytest

from fusedrl.config.check_function import check_function
from fusedrl.config.schema import CustomRewardFunctionConfig


@pytest.mark.parametrize(
    ("path", "weights", "start"),
    [
        ("nowhere.py", {}, "custom_reward_function.path=nowhere.py: there is no such file"),
        (
            "http://host/score",
            {"a": 1.0},
            "custom_reward_function.weights={'a': 1.0}: custom_reward_function.path=",
        ),
        (None, {"a": 1.0}, "custom_reward_function.weights={'a': 1.0}: they name functions of"),
    ],
)
def test_each_mistake_is_one_line_that_begins_with_its_key(path: str | None, weights: dict, start: str) -> None:
    (found,) = check_function(CustomRewardFunctionConfig(path=path, weights=weights))
    assert found.startswith(start)


def test_a_file_with_weights_and_a_server_alone_are_taken(tmp_path: Path) -> None:
    (tmp_path / "reward.py").touch()
    for given in ({"path": str(tmp_path / "reward.py"), "weights": {"a": 1.0}}, {"path": "https://host/score"}, {}):
        assert not list(check_function(CustomRewardFunctionConfig(**given)))

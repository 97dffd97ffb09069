"""Checks of the reward function, before any worker loads it. Each check returns one line per problem."""

from collections.abc import Iterator
from pathlib import Path

from fusedrl.config.schema import CustomRewardFunctionConfig

KEY = "custom_reward_function"
SERVERS = ("http://", "https://")


def check_function(function: CustomRewardFunctionConfig) -> Iterator[str]:
    path = function.path
    if path is None:
        if function.weights:
            yield f"{KEY}.weights={function.weights}: they name functions of {KEY}.path, which is null; give the file"
    elif path.startswith(SERVERS):
        if function.weights:
            yield f"{KEY}.weights={function.weights}: {KEY}.path={path} is a server; it weighs its parts itself"
    elif not Path(path).is_file():
        yield f"{KEY}.path={path}: there is no such file"

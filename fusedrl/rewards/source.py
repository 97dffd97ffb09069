"""Where scores come from: a file's function, several of them weighted, or a server. Loaded in workers only."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fusedrl.rewards.combine import weighted_function
from fusedrl.rewards.function import KEY, RewardFunctionError, check_file, load_function
from fusedrl.rewards.remote import RemoteReward, check_url, is_url


@dataclass(frozen=True)
class Source:
    """path: a Python file or a server's address. weights: several functions of the file instead of `name`. retries: of
    a server that fails."""

    path: str
    name: str = "compute_score"
    weights: Mapping[str, float] = field(default_factory=dict)
    retries: int = 2

    def checked(self) -> "Source":
        """Itself, its path absolute. Raises RewardFunctionError, or ValueError for weights that are no weights."""
        if self.weights and is_url(self.path):
            raise RewardFunctionError(f"{KEY}.weights: {self.path} is a server; weights belong to functions of a file")
        for name, weight in self.weights.items():
            if not math.isfinite(weight):
                raise ValueError(f"{KEY}.weights.{name} is {weight}: make it finite")
        if is_url(self.path):
            check_url(self.path)
            return self
        return Source(str(check_file(self.path)), self.name, dict(self.weights), self.retries)

    def to_text(self) -> str:
        """For a worker's command line."""
        return json.dumps(asdict(self))

    @staticmethod
    def of_text(text: str) -> "Source":
        return Source(**json.loads(text))

    def load(self, *, limit: float) -> Callable[..., Any]:
        """What is called for each response. Raises RewardFunctionError. limit: seconds that a call may take."""
        if is_url(self.path):
            remote = RemoteReward(self.path, retries=self.retries, limit=limit)
            remote.probe()
            return remote
        if not self.weights:
            return load_function(Path(self.path), name=self.name)
        key = f"{KEY}.weights"
        functions = {name: load_function(Path(self.path), name=name, key=key) for name in self.weights}
        return weighted_function(functions, weights=self.weights)

"""What a step works on: samples with prompts and responses of so many tokens, and the mini-batches of its updates.

Lengths of responses come from a file (whole numbers, a line each or a JSON list; drawn anew for the step's samples) or
are log-normal with a mean, cut at the longest. The file is an observation, the other an assumption; `told` says which.
"""

import heapq
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

Array = np.ndarray
SIGMA = 0.5  # of log-normal lengths where none is given
_STEPS = 60  # of the bisection for the median


@dataclass(frozen=True, eq=False)
class Workload:
    """A step's samples in the order of their prompts, n of each. prompt: tokens of each prompt. longest: tokens that a
    response may have. mini_batches: of one pass over the samples; epochs: passes."""

    response_N: Array
    prompt: int
    longest: int
    n: int = 1
    mini_batches: int = 8
    epochs: int = 1
    told: str = "lengths as given"

    def __post_init__(self) -> None:
        if self.samples % self.mini_batches or self.samples % self.n:
            raise ValueError(
                f"data.mini_batches={self.mini_batches}, data.n={self.n}: each must divide the {self.samples} samples "
                "of a step"
            )

    @property
    def samples(self) -> int:
        return len(self.response_N)

    @property
    def updates(self) -> int:
        """Optimizer steps."""
        return self.mini_batches * self.epochs

    @property
    def mini_batch(self) -> int:
        """Samples of one update."""
        return self.samples // self.mini_batches

    @property
    def row(self) -> int:
        """Tokens of the longest sample that there may be."""
        return self.prompt + self.longest

    @cached_property
    def tokens(self) -> float:
        """Of prompts and responses of all samples."""
        return float(self.response_N.sum() + self.prompt * self.samples)

    @cached_property
    def length(self) -> float:
        """Mean length of a sample, weighted by tokens: what attention's time goes with."""
        rows = self.response_N + self.prompt
        return float((rows.astype(float) ** 2).sum() / rows.sum())

    @cached_property
    def mean_row(self) -> float:
        return self.tokens / self.samples

    def share(self, replicas: int, *, of: int) -> float:
        """Tokens of the fullest of `replicas` that share out the first `of` samples, the longest first."""
        loads = [0.0] * replicas
        for tokens in sorted((self.response_N[:of] + self.prompt).tolist(), reverse=True):
            heapq.heapreplace(loads, loads[0] + tokens)
        return max(loads) * self.tokens / self.samples * of / float((self.response_N[:of] + self.prompt).sum())


def from_file(path: Path, *, samples: int, seed: int, **rest: int) -> Workload:
    """Responses drawn from a file's lengths, with replacement. Raises ValueError with the place of what is wrong."""
    lengths = _read(path)
    longest = rest.pop("longest", 0) or int(lengths.max())
    if lengths.max() > longest:
        raise ValueError(f"data.max_response_length={longest}: {path} has a response of {lengths.max()} tokens")
    drawn = np.random.default_rng(seed).choice(lengths, size=samples)
    about = f"mean {lengths.mean():.0f}, longest {lengths.max()}"
    told = f"response lengths drawn from the {len(lengths)} of {path.name} ({about})"
    return Workload(drawn, longest=longest, told=told, **rest)


def log_normal(*, mean: float, longest: int, samples: int, seed: int, sigma: float = SIGMA, **rest: int) -> Workload:
    """Log-normal lengths, cut at the longest, with this mean after the cut. sigma=0 or mean=longest: all alike."""
    if not 1 <= mean <= longest:
        raise ValueError(f"data.mean_response_length={mean:g}: must be from 1 to data.max_response_length={longest}")
    z = np.random.default_rng(seed).standard_normal(samples) * sigma
    low, high = math.log(0.5), math.log(longest) + 8 * sigma + 8
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(np.exp(middle + z), longest).mean() < mean else (low, middle)
    drawn = np.clip(np.rint(np.exp(high + z)), 1, longest).astype(np.int64)
    alike = sigma == 0 or mean == longest
    shape = "all alike" if alike else f"log-normal (sigma {sigma:g}), cut at {longest}"
    return Workload(drawn, longest=longest, told=f"assumed: responses of {mean:g} tokens in the mean, {shape}", **rest)


def _read(path: Path) -> Array:
    try:
        text = path.read_text(encoding="utf-8").strip()
        values = json.loads(text) if text.startswith("[") else [line for line in text.splitlines() if line.strip()]
        lengths = np.array([int(value) for value in values], dtype=np.int64)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"data.lengths={path}: expected whole numbers, a line each: {error}") from None
    if not len(lengths) or lengths.min() < 1:
        raise ValueError(f"data.lengths={path}: expected lengths of 1 or more, at least one of them")
    return lengths

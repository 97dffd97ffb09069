"""Picks (r_t, m) before each step, by simulating steps whose lengths are drawn from those seen so far.

    lengths of the last steps -> bootstrap batches -> every candidate on a few, the best of them on more -> the best, or
    no migration where none beats it

Lengths drift as the policy trains: only the last `window` samples are drawn from. With fewer than a batch seen, nothing
moves. All candidates meet the same batches, so their differences are the policies'.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fusedrl.stream.control import Policy
from fusedrl.stream.simulator import Batch, Simulator

NONE = Policy(r_t=0)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The policy, its simulated milliseconds and those without migration; candidates simulated."""

    policy: Policy
    simulated_ms: float
    without_ms: float
    candidates: int


def candidates(samples: int, *, instances: int, thresholds: int = 16) -> list[Policy]:
    """A grid: r_t from 1 to three quarters of the batch, evenly in its logarithm; every m below all instances."""
    values = np.unique(np.geomspace(1, max(0.75 * samples, 1), thresholds).round().astype(int))
    return [Policy(r_t=int(r_t), m=m) for r_t in values for m in range(1, instances)]


def mean_ms(simulator: Simulator, batches: Iterable[Batch], *, policy: Policy) -> float:
    return float(np.mean([simulator.run(batch, policy=policy).total_ms for batch in batches]))


def choose(
    simulator: Simulator, batches: Sequence[Batch], *, policies: Sequence[Policy], first: int = 2, kept: int = 16
) -> Choice:
    """The fastest policy over `batches`: all on the `first` of them, then the `kept` best on all."""
    early = sorted(policies, key=lambda policy: mean_ms(simulator, batches[:first], policy=policy))
    times = {policy: mean_ms(simulator, batches, policy=policy) for policy in (NONE, *early[:kept])}
    best = min(times, key=times.__getitem__)  # NONE comes first, so a tie moves nothing
    return Choice(policy=best, simulated_ms=times[best], without_ms=times[NONE], candidates=len(policies))


class TailPolicy:
    """Learns lengths and chooses; one for a run. `simulator` may be replaced where costs are measured anew."""

    def __init__(self, simulator: Simulator, *, window: int = 8192, batches: int = 8, seed: int = 0) -> None:
        self.simulator, self._batches = simulator, batches
        self._seen: deque[int] = deque(maxlen=window)
        self._random = np.random.default_rng(seed)

    def observe(self, lengths: Iterable[int]) -> None:
        """Response lengths of a finished step."""
        self._seen.extend(lengths)

    def choose(self, like: Batch) -> Choice:
        """The policy of a step whose samples, but for their lengths, are those of `like`."""
        count, instances = len(like.length_N), len(like.share_I)
        if len(self._seen) < count or instances < 2:
            return Choice(policy=NONE, simulated_ms=float("nan"), without_ms=float("nan"), candidates=0)
        seen = np.fromiter(self._seen, dtype=np.int64)
        drawn = [like.with_lengths(self._random.choice(seen, size=count)) for _ in range(self._batches)]
        return choose(self.simulator, drawn, policies=candidates(count, instances=instances))

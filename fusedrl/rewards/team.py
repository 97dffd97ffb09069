"""Runners of one worker each as one: what scores samples one by one beside a stream also scores whole batches."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardResult, RewardSample


class RunnerTeam:
    """Scores a batch with all `runners` at once. Whoever made them closes them."""

    def __init__(self, runners: Sequence[RewardRunner]) -> None:
        self.runners = tuple(runners)

    def score(self, samples: Sequence[RewardSample]) -> list[RewardResult]:
        """Results in the order of `samples`, as RewardRunner.score has them."""
        shares = [samples[first :: len(self.runners)] for first in range(len(self.runners))]
        with ThreadPoolExecutor(len(self.runners)) as pool:
            found = [iter(each) for each in pool.map(RewardRunner.score, self.runners, shares)]
        return [next(found[index % len(found)]) for index in range(len(samples))]

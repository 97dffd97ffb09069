"""Which (r_t, m) a step's stream gets: the configuration's, or what simulations with this run's costs like best.

The choice changes when and where samples are generated, never what they are.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fusedrl.config.schema import RolloutConfig
from fusedrl.parallel.comm import broadcast_object
from fusedrl.parallel.team import leads
from fusedrl.rollout.requests import Request
from fusedrl.rollout.spread import assign
from fusedrl.rollout.step_times import StepTimes
from fusedrl.rollout.streamed import StreamedEngine
from fusedrl.stream.control import Policy
from fusedrl.stream.costs import Link, StreamCosts
from fusedrl.stream.instance import Place
from fusedrl.stream.scoring import RewardStream
from fusedrl.stream.simulator import Batch, Simulator
from fusedrl.stream.tail_policy import TailPolicy
from fusedrl.trainers.readers import Readers
from fusedrl.trainers.stream_costs import FADE, GUESS, costs_of, gathered, measured_link

ALWAYS = Link(bytes_per_token=0, bytes_per_ms=1.0)  # costs nothing: keys and values go along whenever there are some


class MigrationChoice:
    """For one run, on every rank. Making it and `next` are collectives of all ranks. scorer: on rank 0, if any."""

    def __init__(
        self,
        config: RolloutConfig,
        *,
        place: Place,
        engine: StreamedEngine,
        readers: Readers,
        scorer: RewardStream | None = None,
    ) -> None:
        self._config, self._place, self._engine, self._readers = config, place, engine, readers
        self._scorer = scorer
        self._times = StepTimes()
        self._migrates = config.streaming and config.migration and len(place.ranks) > 1
        self._link = self._way() if self._migrates else None
        mine = 1 if scorer is None else scorer.workers
        self._score_workers = int(broadcast_object(mine)) if self._migrates else 1
        self._tail = TailPolicy(Simulator(GUESS))

    def observe(self, lengths: Sequence[int]) -> None:
        """Response lengths of a finished step."""
        self._tail.observe(lengths)

    def next(self, requests: Sequence[Request], *, migrates: bool) -> tuple[Policy, StreamCosts]:
        """The policy of the next stream and the costs that its instances reckon with; the same on every rank."""
        costs = self._measure()
        policy = Policy(streaming=self._config.streaming)
        return (self._policy(requests, costs, policy) if migrates and self._migrates else policy), costs

    def _measure(self) -> StreamCosts:
        if not self._migrates:
            return replace(GUESS, max_rows=self._engine.max_rows)
        self._times.fade(FADE)
        for source in (self._engine, self._readers, self._scorer):
            self._times.absorb(gathered(StepTimes() if source is None else source.times).to_rows())
            if source is not None:
                source.times = StepTimes()
        return costs_of(
            self._times,
            max_rows=self._engine.max_rows,
            link=self._link,
            tasks=self._readers.tasks,
            score_workers=self._score_workers,
        )

    def _policy(self, requests: Sequence[Request], costs: StreamCosts, policy: Policy) -> Policy:
        threshold, destinations = self._config.migration_threshold, self._config.migration_destinations
        if threshold is not None and destinations is not None:
            return replace(policy, r_t=threshold, m=destinations)
        told = None
        if leads():
            stream = self._config.stream
            options = {"unit_size": stream.unit_size, "chunk_tokens": stream.chunk_tokens}
            self._tail.simulator = Simulator(costs, **options)
            chosen = self._tail.choose(batch_of(requests, instances=len(self._place.ranks))).policy
            told = [chosen.r_t, chosen.m]
        r_t, m = broadcast_object(told)
        return replace(policy, r_t=r_t, m=m)

    def _way(self) -> Link | None:
        """How samples move; None: their tokens alone."""
        if self._config.migration_by == "prefill":
            return None
        if self._config.migration_by == "cache":
            return ALWAYS
        device = self._readers.device
        return measured_link(self._place, bytes_per_token=self._engine.bytes_per_token, device=device)


def batch_of(requests: Sequence[Request], *, instances: int) -> Batch:
    """The step as the simulator sees it, lengths aside."""
    shares = assign(requests, replicas=instances)
    ordered = [request for share in shares for request in share]
    sources = {prompt: number for number, prompt in enumerate(dict.fromkeys(each.prompt for each in ordered))}
    return Batch(
        length_N=np.zeros(len(ordered), dtype=np.int64),
        prompt_N=np.array([len(each.prompt) for each in ordered]),
        source_N=np.array([sources[each.prompt] for each in ordered]),
        share_I=np.array([len(share) for share in shares]),
    )

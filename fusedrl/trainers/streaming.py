"""A step's generation, reward function and inference as one flow of samples (fusedrl.stream), on the job's own ranks.

    requests -> run_stream(engine of this replica, readers, reward workers of rank 0) -> samples, scores, inferred

`rollout.streaming` off runs the same parts stage by stage: the same bits, at another time. What moves, and when, is
chosen before each step (migration_choice.py) and changes no number either.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.config.schema import RolloutConfig
from fusedrl.parallel.comm import broadcast_object
from fusedrl.pipeline.failure import Board
from fusedrl.rewards.sample import RewardSample
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.rollout.requests import samples_of
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.streamed import StreamedEngine
from fusedrl.stream.client import StreamError
from fusedrl.stream.control import Policy
from fusedrl.stream.instance import Place
from fusedrl.stream.liveness import Limits
from fusedrl.stream.messages import SampleState
from fusedrl.stream.run import StreamOptions, StreamResult, run_stream
from fusedrl.stream.scoring import RewardStream
from fusedrl.stream.scoring import Scores as Worker
from fusedrl.telemetry.timers import Span
from fusedrl.trainers.generation import Generator
from fusedrl.trainers.migration_choice import MigrationChoice
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.readers import Readers
from fusedrl.trainers.retokenizing import CUT
from fusedrl.trainers.roles import Role
from fusedrl.trainers.samples import Samples, gather_samples
from fusedrl.trainers.scoring import Scores, call_metrics, reward_sample

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Gathered:
    """What a step learns from: samples, scores of the reward function, inferred results [B, W] by name. Timings and
    metrics of the stream; spans: what this rank's instance did and when."""

    samples: Samples
    scores: Scores
    inferred: dict[str, Tensor]
    timing_s: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)


class SampleStream:
    """The stream of a run. decode: tokens to text; scored: whether a reward function scores; runners: its workers, on
    rank 0. All methods are collectives of all ranks."""

    def __init__(
        self,
        config: RolloutConfig,
        generator: Generator,
        readers: Readers,
        *,
        width: int,
        pad_id: int,
        decode: Callable[[Sequence[int]], str],
        scored: bool,
        runners: Sequence[Worker],
        timeout_s: float,
    ) -> None:
        self._config, self._generator, self.readers = config, generator, readers
        self._width, self._pad_id, self._decode, self._scored = width, pad_id, decode, scored
        assert isinstance(generator.engine, MegatronEngine)  # the configuration's check
        self._engine = StreamedEngine(generator.engine)
        self._place = place_of(generator)
        self._scorer = RewardStream(runners, ask=self._question) if runners else None
        self._asked: tuple[Sequence[PromptRow], int] = ((), 1)
        self._limits = limits_of(config, timeout_s=timeout_s)
        self._choice = MigrationChoice(
            config, place=self._place, engine=self._engine, readers=readers, scorer=self._scorer
        )

    def load(self, critic: Role | None) -> None:
        """The critic's present weights; the actor's are the engine's."""
        self.readers.load(critic)

    def run(self, rows: Sequence[PromptRow], *, n: int, params: SamplingParams) -> Gathered:
        """n samples of each prompt, neighbours, scored and read by every model."""
        found, policy = self._run(rows, n=n, params=params, tasks=self.readers.tasks, migrates=True)
        self._choice.observe([len(each.tokens) for each in found.completions])
        samples = gather_samples(found.completions, max_response_length=self._width, pad_id=self._pad_id)
        metrics = _metrics(found.metrics, policy)
        if (cut := self.readers.take_cut()) is not None:
            metrics[CUT] = float(cut)
        took = {"timing_s/gen": found.metrics["generation_seconds"], "timing_s/stream": found.metrics["seconds"]}
        return Gathered(samples, self._scores(found), self._inferred(found), took, metrics, found.spans)

    def baseline(self, rows: Sequence[PromptRow], *, params: SamplingParams) -> Tensor:
        """Scores of one sample of each prompt, of function and reward model together [P]."""
        tasks = [task for task in self.readers.tasks if task == "reward"]
        found, _ = self._run(rows, n=1, params=params, tasks=tasks, migrates=False)
        score_P = torch.tensor(found.scores)
        return score_P + self._inferred(found)["rm_score"][:, 0] if tasks else score_P

    def _run(
        self, rows: Sequence[PromptRow], *, n: int, params: SamplingParams, tasks: Sequence[str], migrates: bool
    ) -> tuple[StreamResult, Policy]:
        requests = samples_of([row.tokens for row in rows], n=n, params=params)
        policy, costs = self._choice.next(requests, migrates=migrates)
        stream = self._config.stream
        options = StreamOptions(
            policy=policy,
            tasks=tasks,
            scored=self._scored,
            unit_size=stream.unit_size,
            chunk_tokens=stream.chunk_tokens,
            costs=costs,
            limits=self._limits,
            address=stream.address or "",
        )
        self._asked = self.readers.asked = rows, n
        found = self._or_tell(
            lambda: run_stream(
                requests,
                place=self._place,
                engine=self._engine,
                inference=self.readers,
                scorer=self._scorer,
                options=options,
            )
        )
        self._generator.engine.release_cache()  # the model trains now
        self.readers.rest()
        return found, policy

    def _question(self, state: SampleState) -> RewardSample:
        """What the reward function is asked about a finished sample; called by the workers' threads."""
        rows, n = self._asked
        tokens = np.frombuffer(state.tokens, dtype="<i4").tolist()
        return reward_sample(rows[state.sample_id // n], sample_id=state.sample_id, text=self._decode(tokens))

    def _scores(self, found: StreamResult) -> Scores:
        mine = [] if self._scorer is None else list(self._scorer.results.values())
        return Scores(torch.tensor(found.scores, dtype=torch.float32), broadcast_object(call_metrics(mine)))

    def _inferred(self, found: StreamResult) -> dict[str, Tensor]:
        """[B, width] with zeros beyond each response; [B, 1] of what is one number a sample."""
        widths = {
            name: self._width if reader.by_token else 1
            for reader in self.readers.readers.values()
            for name in reader.names
        }
        return {name: _padded(rows, width=widths[name]) for name, rows in found.values.items()}

    def _or_tell(self, run: Callable[[], StreamResult]) -> StreamResult:
        """One rank tells why a step failed, before the launcher ends them all: the one that failed, or else the first
        that heard of it."""
        board = Board("fusedrl.stream")
        try:
            return run()
        except StreamError as error:
            board.wait_told()
            if board.claim(dist.get_rank()):
                logger.error("the stream of samples failed: %s", error)
                board.tell()
            raise
        except Exception as error:
            logger.exception("rank %d failed in the stream of samples", dist.get_rank())
            board.claim(dist.get_rank())
            board.tell()
            raise StreamError(f"{type(error).__name__}: {error}") from error


def place_of(generator: Generator) -> Place:
    """Generation replicas as instances."""
    groups = generator.groups
    tp = groups.tp.size()
    ranks = [tuple(range(first, first + tp)) for first in range(0, dist.get_world_size(), tp)]
    return Place(instance=groups.dp.rank(), member=groups.tp.rank(), ranks=ranks, group=groups.tp)


def limits_of(config: RolloutConfig, *, timeout_s: float) -> Limits:
    silence_s = config.stream.silence_s
    return Limits(
        pulse_s=min(0.5, silence_s / 5),
        silence_s=silence_s,
        stall_s=timeout_s,
        join_s=timeout_s,
        step_s=config.stream.step_s,
    )


def _metrics(found: Mapping[str, float], policy: Policy) -> dict[str, float]:
    counts = ("migrated_samples", "migrated_bytes", "prefilled_samples", "refused_messages")
    return {
        "perf/rollout_idle_ratio": found["idle_ratio"],
        "rollout/migration_threshold": float(policy.r_t),
        "rollout/migration_destinations": float(policy.m if policy.r_t else 0),
        **{f"rollout/{name}": found[name] for name in counts},
    }


def _padded(rows: Sequence[Any], *, width: int) -> Tensor:
    whole_BW = torch.zeros(len(rows), width)
    for b, row in enumerate(rows):
        whole_BW[b, : len(row)] = torch.from_numpy(row.copy())  # read-only: part of a message
    return whole_BW

"""Generation and inference through the real coordinator, its sockets and messages, on engines that sleep.

    torchrun --nproc-per-node 8 -m fusedrl.bench.rollout out=FILE.json [distributions=[long_tailed,bimodal]] [repeats=5]

Each rank is an instance. For every distribution of lengths (lengths.py) the same batches run stage by stage, streaming,
and streaming with migration at the (r_t, m) that the tail policy picks from *other* batches; then the best of a sweep.
FILE holds, by distribution, medians over the batches in seconds: {stage_by_stage_s, streaming_s, migration_s,
simulated_migration_s, best_swept_s, r_t, m, ...}; FILE.png shows them.

Costs are those of an 8 B model with grouped queries on one 80 GB GPU (H100-like), by arithmetic from data sheets, with
time and lengths divided by ten: one emulated token is ten real ones, and a step of 8 ms stands for 80 ms.

    decode    16 GB of weights at 80 % of 3.35 TB/s, 2 ms of launches: 8 ms; 0.02 ms a row for 500 tokens of keys and
              values (128 KB each); beyond 192 rows arithmetic rules: 16 GFLOP a row at 400 TFLOP/s, 0.04 ms
    prefill, inference    16 GFLOP a token at 400 TFLOP/s: 0.04 ms; four times for reward, reference, critic, log-probs
    moving    128 KB a token at 25 GB/s
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table

from fusedrl.bench import arguments
from fusedrl.bench.arguments import ArgumentError
from fusedrl.bench.emulated import sharpen_sleep
from fusedrl.bench.emulated_rollout import EmulatedEngine, EmulatedInference
from fusedrl.bench.job import console, join, stop
from fusedrl.bench.lengths import DISTRIBUTIONS
from fusedrl.bench.rollout_plot import save_plot
from fusedrl.checkpoint.atomic import write_file
from fusedrl.parallel.comm import broadcast_object
from fusedrl.rewards.sample import RewardResult, RewardSample
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.stream.control import Policy
from fusedrl.stream.costs import DecodeCurve, Link, StreamCosts
from fusedrl.stream.instance import Place
from fusedrl.stream.liveness import Limits
from fusedrl.stream.messages import SampleState
from fusedrl.stream.run import StreamOptions, StreamResult, run_stream
from fusedrl.stream.scoring import RewardStream
from fusedrl.stream.simulator import Batch, Simulator
from fusedrl.stream.tail_policy import TailPolicy, candidates, mean_ms

TASKS = ("reward", "ref", "values", "old_log_prob")
COSTS = StreamCosts(
    decode=DecodeCurve.with_knee(base_ms=8.0, row_ms=0.02, knee=192, beyond_ms=0.04),
    prefill_ms=0.04,
    infer_ms=dict.fromkeys(TASKS, 0.04),
    link=Link(bytes_per_token=10 * 131072, bytes_per_ms=10 * 25e6, latency_ms=0.2),
    max_rows=256,
    score_ms=2.0,
)
HISTORY = 4  # batches that the tail policy has seen
CALIBRATIONS = 5  # runs for each overhead
STAGES, STREAMING = Policy(streaming=False), Policy()
GOALS = {"speedup": 1.3, "never_below": 0.98, "simulator": 0.07, "choice": 0.03}
LONG_TAILED = ("long_tailed", "bimodal")
Figures = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """distributions: of bench.lengths; samples: of each instance; n: of a prompt; median: tokens of a response;
    prompt: tokens of one; repeats: batches; shortlist: policies of the sweep that are measured, the best simulated;
    workers: of the emulated reward function; seed: of the lengths; timeout: seconds of a run.
    """

    out: Path | None = None
    distributions: tuple[str, ...] = tuple(DISTRIBUTIONS)
    samples: int = 128
    n: int = 8
    median: int = 25
    prompt: int = 26
    repeats: int = 5
    shortlist: int = 4
    workers: int = 4
    seed: int = 0
    timeout: float = 120.0

    def __post_init__(self) -> None:
        for name in self.distributions:
            arguments.one_of(name, tuple(DISTRIBUTIONS), key="distributions")
        if not self.distributions:
            raise ArgumentError(f"distributions: name at least one of {', '.join(DISTRIBUTIONS)}")
        for key in ("samples", "n", "median", "prompt", "repeats", "shortlist", "workers"):
            if getattr(self, key) < 1:
                raise ArgumentError(f"{key}: {getattr(self, key)} is too small; at least 1")
        if self.samples % self.n:
            raise ArgumentError(f"samples: {self.samples} of an instance are no multiple of n={self.n}")
        if not 0 < self.timeout <= 1e6:
            raise ArgumentError(f"timeout: {self.timeout:g} must be above 0 and at most 1e6")


class SleepingReward:
    """A reward function's worker."""

    def score(self, samples: Sequence[RewardSample]) -> list[RewardResult]:
        time.sleep(COSTS.score_ms / 1e3 * len(samples))
        return [RewardResult(sample.sample_id, 1.0) for sample in samples]


class Bench:
    """Runs batches on this job's ranks; every method is a collective."""

    def __init__(self, options: Options) -> None:
        self.options, self.costs = options, replace(COSTS, score_workers=options.workers)
        self.instances, rank = dist.get_world_size(), dist.get_rank()
        self._place = Place(instance=rank, member=0, ranks=[(each,) for each in range(self.instances)])
        workers = [SleepingReward()] * options.workers
        self._scorer = RewardStream(workers, ask=_question) if rank == 0 else None

    @property
    def chunk_tokens(self) -> int:
        """About eight samples of the median: some 20 ms of one task."""
        return 8 * (self.options.median + self.options.prompt)

    @property
    def simulator(self) -> Simulator:
        return Simulator(self.costs, chunk_tokens=self.chunk_tokens)

    def draw(self, distribution: str, *, number: int) -> Batch:
        """A batch of a distribution, the same on all ranks; numbers below 0 are those that the policy learns from."""
        count = self.options.samples * self.instances
        random = np.random.default_rng([self.options.seed, 10_000 + number])
        lengths = DISTRIBUTIONS[distribution](self.options.median, count=count, random=random)
        return self.batch(lengths)

    def batch(self, lengths: np.ndarray) -> Batch:
        return Batch.even(lengths, instances=self.instances, prompt_tokens=self.options.prompt, n=self.options.n)

    def run(self, batch: Batch, *, policy: Policy, tasks: Sequence[str] = TASKS, scored: bool = True) -> StreamResult:
        lengths = dict(enumerate(batch.length_N.tolist()))
        params = SamplingParams(max_tokens=1 << 20)
        requests = [
            Request(sample_id=i, prompt=(int(source), *[1] * (self.options.prompt - 1)), params=params)
            for i, source in enumerate(batch.source_N)
        ]
        dist.barrier()
        return run_stream(
            requests,
            place=self._place,
            engine=EmulatedEngine(lengths, costs=COSTS),
            inference=EmulatedInference(COSTS.infer_ms),
            scorer=self._scorer if scored else None,
            options=StreamOptions(
                policy=policy,
                tasks=tasks,
                scored=scored,
                chunk_tokens=self.chunk_tokens,
                costs=self.costs,
                limits=Limits(step_s=self.options.timeout),
            ),
        )

    def seconds(self, batches: Sequence[Batch], *, policy: Policy) -> float:
        """The median over the batches."""
        return statistics.median(self.run(batch, policy=policy).metrics["seconds"] for batch in batches)

    def calibrate(self) -> None:
        """Learn what the loop adds to a step and an answer to a chunk, as a real engine's curve is learned: by running.

        Two runs that consist of nothing but the one, and nothing but the other.
        """
        count = self.options.samples * self.instances
        step, answer = self.batch(np.full(count, 100)), self.batch(np.full(count, 1))
        unscored = replace(self.costs, score_ms=0.0)
        overhead_ms = self._beyond(step, (), with_ms=lambda ms: replace(unscored, infer_ms={}, overhead_ms=ms))
        unscored = replace(unscored, overhead_ms=overhead_ms)
        message_ms = self._beyond(answer, TASKS, with_ms=lambda ms: replace(unscored, message_ms=ms))
        self.costs = replace(self.costs, overhead_ms=overhead_ms, message_ms=message_ms)

    def _beyond(self, batch: Batch, tasks: Sequence[str], *, with_ms: Callable[[float], StreamCosts]) -> float:
        """Which overhead makes the simulator as slow as the fastest of some runs (noise only ever adds)."""
        runs = [self.run(batch, policy=STREAMING, tasks=tasks, scored=False) for _ in range(CALIBRATIONS)]
        without, with_one = (
            Simulator(with_ms(ms), chunk_tokens=self.chunk_tokens).run(batch, policy=STREAMING).total_ms
            for ms in (0.0, 1.0)
        )
        return max(0.0, (1e3 * min(each.metrics["seconds"] for each in runs) - without) / (with_one - without))


def measure(bench: Bench, distribution: str) -> Figures:
    """One distribution's figures; the same on all ranks."""
    options = bench.options
    batches = [bench.draw(distribution, number=number) for number in range(options.repeats)]
    policy, short = _agreed(bench, distribution, batches)
    runs = {name: [] for name in ("stage_by_stage", "streaming", "migration")}  # type: dict[str, list[StreamResult]]
    for batch in batches:
        for name, each in zip(runs, (STAGES, STREAMING, policy), strict=True):
            runs[name].append(bench.run(batch, policy=each))
    found: Figures = {
        f"{name}_s": statistics.median(result.metrics["seconds"] for result in results)
        for name, results in runs.items()
    }
    swept = {each: bench.seconds(batches, policy=each) for each in short} | {policy: found["migration_s"]}
    best = min(swept, key=swept.__getitem__)
    simulated = {
        name: _simulated(bench, batches, each) for name, each in zip(runs, (STAGES, STREAMING, policy), strict=True)
    }
    return found | {
        "simulated_migration_s": simulated["migration"],
        "best_swept_s": swept[best],
        "r_t": policy.r_t,
        "m": policy.m,
        "best_r_t": best.r_t,
        "best_m": best.m,
        "swept": len(candidates(len(batches[0].length_N), instances=bench.instances)),
        "swept_and_measured": [{"r_t": each.r_t, "m": each.m, "s": seconds} for each, seconds in swept.items()],
        "simulated_stage_by_stage_s": simulated["stage_by_stage"],
        "simulated_streaming_s": simulated["streaming"],
        "migrated_samples": statistics.median(each.metrics["migrated_samples"] for each in runs["migration"]),
        "idle_ratio": {name: statistics.median(r.metrics["idle_ratio"] for r in rs) for name, rs in runs.items()},
    }


def _agreed(bench: Bench, distribution: str, batches: Sequence[Batch]) -> tuple[Policy, list[Policy]]:
    """The tail policy's choice, and the sweep's shortlist: every (r_t, m) simulated on the very batches, the best kept.

    Rank 0 decides; the others would come to the same, but need not spend the time.
    """
    told = None
    if dist.get_rank() == 0:
        learner = TailPolicy(bench.simulator, seed=bench.options.seed)
        for number in range(-HISTORY, 0):
            learner.observe(bench.draw(distribution, number=number).length_N.tolist())
        chosen = learner.choose(batches[0]).policy
        swept = candidates(len(batches[0].length_N), instances=bench.instances)
        ranked = sorted([STREAMING, *swept], key=lambda each: mean_ms(bench.simulator, batches, policy=each))
        told = [asdict(each) for each in (chosen, *ranked[: bench.options.shortlist])]
    policies = [Policy(**each) for each in broadcast_object(told)]
    return policies[0], [each for each in policies[1:] if each != policies[0]]


def _simulated(bench: Bench, batches: Sequence[Batch], policy: Policy) -> float:
    """Seconds, the median over the batches as for measured ones."""
    return statistics.median(bench.simulator.run(batch, policy=policy).total_ms for batch in batches) / 1e3


def _question(sample: SampleState) -> RewardSample:
    return RewardSample(str(sample.sample_id), "emulated", "")


def misses(results: dict[str, Figures]) -> list[str]:
    """Which goals the figures do not meet, in words."""
    found = []
    for name, figures in results.items():
        faster = figures["stage_by_stage_s"] / figures["migration_s"]
        least = GOALS["speedup"] if name in LONG_TAILED else GOALS["never_below"]
        if faster < least:
            found.append(f"{name}: {faster:.3f} x stage by stage, at least {least:g} wanted")
        off = abs(figures["simulated_migration_s"] / figures["migration_s"] - 1)
        if off > GOALS["simulator"]:
            found.append(f"{name}: the simulator is {off:.1%} off, at most {GOALS['simulator']:.0%} wanted")
        behind = figures["migration_s"] / figures["best_swept_s"] - 1
        if behind > GOALS["choice"]:
            found.append(f"{name}: the chosen (r_t, m) is {behind:.1%} behind the best, {GOALS['choice']:.0%} wanted")
    return found


def table(results: dict[str, Figures], *, title: str) -> Table:
    """Seconds of each way, how much faster than stage by stage, and how well simulated and chosen."""
    made = Table(title=title)
    heads = ("stages s", "streaming", "migration", "simulated", "best swept", "streaming x", "migration x", "sim. off")
    for head in ("lengths", *heads, "behind best", "(r_t, m)"):
        made.add_column(head, justify="left" if head == "lengths" else "right")
    for name, found in results.items():
        stages, streaming, migration = (found[f"{way}_s"] for way in ("stage_by_stage", "streaming", "migration"))
        seconds = [stages, streaming, migration, found["simulated_migration_s"], found["best_swept_s"]]
        made.add_row(
            name,
            *(f"{each:.3f}" for each in seconds),
            f"{stages / streaming:.3f}",
            f"{stages / migration:.3f}",
            f"{found['simulated_migration_s'] / migration - 1:+.1%}",
            f"{migration / found['best_swept_s'] - 1:.1%}",
            f"({found['r_t']}, {found['m']})",
        )
    return made


def run(options: Options, *, out: Console | None) -> dict[str, Figures]:
    """All distributions; the same figures on all ranks."""
    bench = Bench(options)
    bench.calibrate()
    results = {name: measure(bench, name) for name in options.distributions}
    if out is not None:
        costs = f"{bench.costs.overhead_ms:.2f} ms a step round it, {bench.costs.message_ms:.2f} ms an answer"
        out.print(table(results, title=f"{bench.instances} instances, {options.samples} samples each; {costs}"))
        for miss in misses(results):
            out.print(f"missed: {miss}")
    return results


def main() -> None:
    rank = int(os.environ.get("RANK", "0"))
    try:
        options = arguments.read(Options, sys.argv[1:])
        if options.out is not None and not options.out.resolve().parent.is_dir():
            raise ArgumentError(f"out: there is no folder {options.out.resolve().parent}")
    except ArgumentError as error:
        stop("fusedrl.bench.rollout", str(error), rank=rank)
    torch.set_num_threads(1)
    sharpen_sleep()
    join(limit_s=2 * options.timeout + 60)
    try:
        results = run(options, out=console() if rank == 0 else None)
    finally:
        dist.destroy_process_group()
    if rank == 0 and options.out is not None:
        write_file(options.out, json.dumps(results, indent=2) + "\n")
        save_plot(results, path=options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()

"""What the ranks do in the tests of a stream: emulated engines, quick ones, on the job's ranks."""

import os
import time
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from fusedrl.bench.emulated_rollout import EmulatedEngine, EmulatedInference
from fusedrl.rewards.sample import RewardResult, RewardSample
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.stream.control import Policy
from fusedrl.stream.costs import DecodeCurve, Link, StreamCosts
from fusedrl.stream.instance import Place
from fusedrl.stream.liveness import Limits
from fusedrl.stream.messages import SampleState
from fusedrl.stream.run import StreamOptions, StreamResult, run_stream
from fusedrl.stream.scoring import RewardStream

TASKS = ("ref", "values")
COUNT = 24


def costs(*, link: bool) -> StreamCosts:
    return StreamCosts(
        decode=DecodeCurve(((1, 2.0), (2, 2.0))),  # slow enough for a tail that moves before it ends
        prefill_ms=0.01,
        infer_ms=dict.fromkeys(TASKS, 0.002),
        link=Link(bytes_per_token=4, bytes_per_ms=1e6) if link else None,
        max_rows=4,
    )


def lengths() -> dict[int, int]:
    return {i: 1 + (i * 7) % 5 + (60 if i % 6 == 0 else 0) for i in range(COUNT)}


class LengthReward:
    def score(self, samples: Sequence[RewardSample]) -> list[RewardResult]:
        return [RewardResult(each.sample_id, len(each.solution_str) / 3) for each in samples]


def ask(state: SampleState) -> RewardSample:
    return RewardSample(str(state.sample_id), "test", "x" * state.length)


def place(tp: int) -> Place:
    """Instances of `tp` neighbouring ranks."""
    rank, world = dist.get_rank(), dist.get_world_size()
    ranks = [tuple(range(start, start + tp)) for start in range(0, world, tp)]
    groups = [dist.new_group(list(members)) for members in ranks]
    return Place(instance=rank // tp, member=rank % tp, ranks=ranks, group=groups[rank // tp])


def stream(*, policy: dict[str, Any], tp: int = 1, link: bool = True, unit_size: int = 1) -> dict[str, Any]:
    given = costs(link=link)
    requests = [Request(sample_id=i, prompt=(i // 2, 1, 2), params=SamplingParams(max_tokens=62)) for i in range(COUNT)]
    result = run_stream(
        requests,
        place=place(tp),
        engine=EmulatedEngine(lengths(), costs=given),
        inference=EmulatedInference(given.infer_ms),
        scorer=RewardStream([LengthReward()], ask=ask) if dist.get_rank() == 0 else None,
        options=StreamOptions(policy=Policy(**policy), tasks=TASKS, unit_size=unit_size, costs=given, chunk_tokens=40),
    )
    return {"samples": samples(result), "metrics": result.metrics, "spans": result.spans}


def samples(result: StreamResult) -> list[Any]:
    """All of each sample, as plain values."""
    values = {name: [array.tobytes() for array in arrays] for name, arrays in result.values.items()}
    return [
        [plain(each), result.scores[i], *(values[name][i] for name in TASKS)]
        for i, each in enumerate(result.completions)
    ]


def plain(sample: Completion) -> tuple[Any, ...]:
    return (sample.sample_id, sample.prompt, sample.tokens, sample.logprobs, sample.finish_reason)


class Dying(EmulatedEngine):
    """Its rank goes silent in the middle: the process lives, as one that swaps or waits for a lost file system."""

    def step(self) -> list[Completion]:
        raise Silence


class Silence(BaseException):
    """Ends the loop of an instance without a word to the coordinator."""


def stream_with_a_dead_rank() -> str:
    """What each rank is told; rank 1 is the one that dies."""
    dead = dist.get_rank() == 1
    engine = (Dying if dead else EmulatedEngine)(lengths(), costs=costs(link=False))
    requests = [Request(sample_id=i, prompt=(1,), params=SamplingParams(max_tokens=62)) for i in range(COUNT)]
    options = StreamOptions(scored=False, limits=Limits(pulse_s=0.1, silence_s=1.0))
    try:
        run_stream(requests, place=place(1), engine=engine, options=options)
    except Silence:
        time.sleep(2.0)  # the others must find out by themselves
        return "dead"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "finished"


def stream_that_cannot_start() -> str:
    options = StreamOptions(scored=False, address="no.such.host.invalid")
    requests = [Request(sample_id=0, prompt=(1,), params=SamplingParams())]
    try:
        run_stream(requests, place=place(1), engine=EmulatedEngine({0: 1}, costs=costs(link=False)), options=options)
    except Exception as error:
        return str(error)
    return f"rank {os.environ.get('RANK')} started"

"""What the ranks do in the tests of emulated stages."""

import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.bench.emulated import Emulation, emulated_models, emulated_work, sleep_until
from fusedrl.bench.fold import with_weight_part
from fusedrl.bench.pipeline import Options, run
from fusedrl.pipeline.executor import Executor
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.program import make_program
from fusedrl.pipeline.results import gather_report
from schedules.builders.greedy import greedy
from schedules.builders.zero_bubble import zero_bubble
from schedules.problem import Model, Problem


def two_models(ranks: int = 2) -> Problem:
    return Problem(
        ranks,
        (
            Model("actor", list(range(ranks)), 3, forward=2.0, backward=4.0, activation=1.0),
            Model("critic", list(range(ranks))[::-1], 4, forward=1.0, backward=[3.0] * ranks, activation=1.0),
            Model("ref", list(range(ranks)), 2, forward=1.0),
        ),
    )


def emulate(*, unit_ms: float, payload: int, split: bool) -> dict[str, float]:
    """ms by op."""
    problem = two_models(dist.get_world_size())
    problem = with_weight_part(problem) if split else problem
    program = make_program(problem, zero_bubble(problem) if split else greedy(problem))
    models = emulated_models(problem, rank=dist.get_rank(), emulation=Emulation(unit_ms, payload=payload))
    executor = Executor(models, timeout=20)
    report = gather_report(executor, program, executor.run(program, emulated_work(problem)))
    executor.close()
    return {str(t.op): (t.end - t.start) / 1e6 for row in report.timeline.ranks for t in row}


def crossed() -> list[str]:
    """What a stage says to another micro-batch's tensor, forwards and backwards."""
    problem = two_models(2)
    (actor, *_) = emulated_models(problem, rank=1, emulation=Emulation(0.001, payload=8))
    stage, said = actor.stages[1], []
    for number, received in ((1, torch.tensor([1.0, 2.0])), (2, torch.tensor([1.0, 2.0]))):
        try:
            stage(MicroBatch(torch.tensor([[number]])), received)
        except AssertionError as error:
            said.append(str(error))
    (first, *_) = emulated_models(problem, rank=0, emulation=Emulation(0.001, payload=8))
    output = first.stages[0](MicroBatch(torch.tensor([[2]])), None)
    try:
        output.backward(torch.tensor([1.0, 1.0]))
    except AssertionError as error:
        said.append(str(error))
    return said


def oversleep(count: int, *, ms: float) -> list[float]:
    """ms by which each of a row of sleeps missed its deadline."""
    missed = []
    for _ in range(count):
        deadline = time.perf_counter_ns() + int(ms * 1e6)
        sleep_until(deadline)
        missed.append((time.perf_counter_ns() - deadline) / 1e6)
    return missed


def bench(path: str, methods: list[str], *, trace: str) -> dict[str, Any]:
    options = Options(Path(path), unit_ms=0.5, methods=tuple(methods), repeats=3, time_limit=1.0, trace=Path(trace))
    return run(options, problem=Problem.load(path), console=None)

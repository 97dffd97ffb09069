"""Jobs of the tests of clocks, memory and traces."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from fusedrl.pipeline.clocks import align
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.program import make_program
from fusedrl.pipeline.results import gather_report
from fusedrl.pipeline.spans import gather_spans
from fusedrl.pipeline.trace import save_chrome_trace
from schedules.problem import Model, Problem
from tests.distributed.pipeline_jobs import (
    BUILDERS,
    SPLITTING,
    microbatches,
    toy_lie,
    toy_loss,
    toy_model,
    toy_problem,
)


def aligned(hosts: Sequence[str], *, ahead_s: Sequence[int]) -> tuple[list[int], list[int]]:
    """Offsets and errors where each rank's clock is ahead by so much."""
    ahead = ahead_s[dist.get_rank()] * 10**9
    found = align(hosts, clock=lambda: time.perf_counter_ns() + ahead)
    return list(found.offsets), list(found.errors)


def profiled(*, kind: str, builder: str, folder: str) -> dict[str, Any]:
    """One pass of toy models with its memory measured; peaks, and on rank 0 a trace of two passes."""
    world = dist.get_world_size()
    lie, counts = toy_lie(kind, world), {"actor": 4, "critic": 3}
    executor = Executor([toy_model(n, placement=p, columns=lie.columns[n]) for n, p in lie.placements.items()])
    of_copies = {name: counts[name.rstrip("01")] for name in lie.in_program}
    problem = toy_problem(lie.in_program, of_copies, split=builder in SPLITTING)
    program = make_program(problem, (BUILDERS | SPLITTING)[builder](problem))
    work = {n: Work(microbatches(counts[n], seed=1), loss=toy_loss(1)) for n in counts}
    reports = [
        gather_report(executor, program, executor.run(program, work, measure_memory=measure))
        for measure in (True, False)
    ]
    executor.close()
    if dist.get_rank() == 0:
        save_chrome_trace(Path(folder) / "trace.json", reports)
    peaks = reports[0].peaks
    assert peaks is not None
    return {
        "peaks": vars(peaks),
        "ends": [row[-1][1:] for row in reports[0].memory],
        "replayed": replayed_bytes(problem, reports[0].memory, program.order),
        "unmeasured": (reports[1].memory, reports[1].peaks),
        "waits": [timed.asked is not None for timed in reports[0].timeline.ranks[0]],
        "ordered": all(
            (t.asked or t.start) <= t.start <= t.end <= (t.sent or t.end) for r in reports[0].timeline.ranks for t in r
        ),
    }


def replayed_bytes(problem: Problem, memory: Any, order: Any) -> list[float]:
    """The peaks that a plan with the measured bytes of each forward has."""
    from schedules.replay import replay

    rise: dict[Any, int] = {}
    for curve in memory:
        before = 0
        for held in curve:
            rise[held.op] = held.nbytes - before
            before = held.nbytes

    def measured(model: Model) -> Model:
        counts, stages = range(model.microbatches), range(model.stages)
        F = {(op.microbatch, op.stage): n for op, n in rise.items() if (op.model, op.kind) == (model.name, "F")}
        return Model(
            model.name,
            model.placement,
            model.microbatches,
            1.0,
            1.0,
            activation=[[F[m, s] for m in counts] for s in stages],
        )

    return list(replay(Problem(problem.ranks, tuple(measured(m) for m in problem.models)), order).peak_memory)


def spans() -> list[list[Any]]:
    """Phases of all ranks, of this rank one that its rank tells from the others."""
    rank = dist.get_rank()
    return [list(each.phases) for each in gather_spans([("gen", rank, 10 + rank)])]

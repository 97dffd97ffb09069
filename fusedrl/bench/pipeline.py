"""Orders run by the real executor on emulated stages: what was planned against what the clock says.

    torchrun --nproc-per-node 8 -m fusedrl.bench.pipeline problem=configs/schedule/exp4.yaml unit_ms=2 \\
        methods=[serial,greedy,auto,fused_split] out=FILE.json

Stages sleep, messages are real (gloo, CPU). One rank solves, the others wait. FILE holds, for each method, medians over
the repeats after the first: {planned_makespan_ms, replayed_makespan_ms, measured_makespan_ms, planned_bubble,
measured_bubble, ...}. Replayed: the replay with the ops' measured durations; what measured is beyond it, messages and
the executor cost.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table

from fusedrl.bench import arguments
from fusedrl.bench.arguments import ArgumentError
from fusedrl.bench.cases import ALL_METHODS, Case, from_wire, solve_case, solving_limit, to_wire
from fusedrl.bench.emulated import Emulation, emulated_models, emulated_work, sharpen_sleep
from fusedrl.bench.fold import folded
from fusedrl.checkpoint.atomic import write_file
from fusedrl.parallel.comm import broadcast_object
from fusedrl.pipeline.executor import Executor
from fusedrl.pipeline.failure import PipelineError
from fusedrl.pipeline.program import Program, make_program
from fusedrl.pipeline.results import PassReport, gather_report
from fusedrl.pipeline.timeline import replayed
from fusedrl.pipeline.trace import save_chrome_trace
from schedules.problem import Problem, ProblemError
from schedules.search.limits import Limits

WARM_UP = 1  # first repeats, left out of the medians
BAD_ARGUMENTS = 2  # exit code
WAIT_S = 20.0  # of ranks other than 0, for the launcher to end them
Figures = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """problem: file; unit_ms: milliseconds of one unit of its time; methods: names of schedules.solve, or fused_split;
    out: file to write; repeats: passes of each method, the first being a warm-up; time_limit, steps, seed: of searches;
    payload: bytes of a message; timeout: seconds a message may take; scale: fold a deeper problem onto the job's ranks;
    trace: folder for METHOD.json, Perfetto traces of the last repeats.
    """

    problem: Path
    unit_ms: float = 2.0
    methods: tuple[str, ...] = ("serial", "greedy", "auto", "fused_split")
    out: Path | None = None
    repeats: int = 5
    time_limit: float = 20.0
    steps: int | None = None
    seed: int = 0
    payload: int = 16384
    timeout: float = 60.0
    scale: bool = False
    trace: Path | None = None

    def __post_init__(self) -> None:
        for method in self.methods:
            arguments.one_of(method, ALL_METHODS, key="methods")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise ArgumentError(f"methods: name each once, and at least one; got [{','.join(self.methods)}]")
        for key, least in (("repeats", WARM_UP + 1), ("payload", 4), ("seed", 0)):
            if getattr(self, key) < least:
                raise ArgumentError(f"{key}: {getattr(self, key)} is too small; at least {least}")
        for key in ("unit_ms", "time_limit", "timeout"):
            if not 0 < getattr(self, key) <= 1e6:
                raise ArgumentError(f"{key}: {getattr(self, key):g} must be above 0 and at most 1e6")

    @property
    def limits(self) -> Limits:
        return Limits(seconds=self.time_limit, steps=self.steps, seed=self.seed)


def load_problem(options: Options, *, world: int) -> Problem:
    """The problem of the file on the job's ranks. Raises ProblemError, which tells what to change."""
    problem = Problem.load(options.problem)
    if problem.ranks == world:
        return problem
    if options.scale:
        return folded(problem, ranks=world)
    fold = f", or add scale=true to fold it onto {world}" if problem.ranks % world == 0 else ""
    raise ProblemError(
        f"{options.problem}: made for {problem.ranks} ranks, the job has {world}; "
        f"start torchrun --nproc-per-node {problem.ranks}{fold}"
    )


def agreed_cases(problem: Problem, options: Options) -> list[Case]:
    """The methods' orders, solved on rank 0 and told to the others. A collective of all ranks."""
    wire = None
    if dist.get_rank() == 0:
        wire = [to_wire(solve_case(problem, method, limits=options.limits)) for method in options.methods]
    return [from_wire(each) for each in broadcast_object(wire)]


def run_case(case: Case, options: Options) -> list[Figures]:
    """Every repeat's figures, warm-up included; the same on all ranks."""
    assert case.order is not None
    program = make_program(case.problem, case.order)
    models = emulated_models(
        case.problem, rank=dist.get_rank(), emulation=Emulation(options.unit_ms, payload=options.payload)
    )
    executor = Executor(models, timeout=options.timeout)
    work = emulated_work(case.problem)
    reports: list[PassReport] = []
    for _ in range(options.repeats):
        dist.barrier()
        reports.append(gather_report(executor, program, executor.run(program, work)))
    executor.close()
    if options.trace is not None and dist.get_rank() == 0:
        save_chrome_trace(options.trace / f"{case.method}.json", reports[-1:])
    return [figures(program, report, unit_ms=options.unit_ms) for report in reports]


def figures(program: Program, report: PassReport, *, unit_ms: float) -> Figures:
    """One pass's makespans in ms and bubble ratios."""
    again = replayed(program.problem, program.order, report.timeline)
    return {
        "planned_makespan_ms": program.planned.makespan * unit_ms,
        "replayed_makespan_ms": again.makespan * 1e3,
        "measured_makespan_ms": report.timeline.span * 1e3,
        "planned_bubble": report.planned_bubble,
        "replayed_bubble": report.replayed_bubble,
        "measured_bubble": report.measured_bubble,
        "executor_ms_per_op": report.timeline.overhead * 1e3,
    }


def medians(repeats: Sequence[Figures]) -> Figures:
    """The median of each figure over the repeats after the warm-up."""
    kept = repeats[WARM_UP:]
    return {name: statistics.median(each[name] for each in kept) for name in kept[0]}


def summary(case: Case, repeats: Sequence[Figures], options: Options) -> Figures:
    """What is written of a method: the medians, how they were made, and the slowest repeat."""
    found = medians(repeats)
    return found | {
        "measured_over_replayed": found["measured_makespan_ms"] / found["replayed_makespan_ms"],
        "slowest_makespan_ms": max(each["measured_makespan_ms"] for each in repeats[WARM_UP:]),
        "repeats": len(repeats) - WARM_UP,
        "unit_ms": options.unit_ms,
        "ranks": case.problem.ranks,
        "problem": str(options.problem),
        "digest": case.problem.digest,
        "solve_seconds": round(case.seconds, 3),
    }


def run(options: Options, *, problem: Problem, console: Console | None) -> dict[str, Figures]:
    """All methods in turn; each one's summary, or why it was refused. A collective of all ranks."""
    results: dict[str, Figures] = {}
    for case in agreed_cases(problem, options):
        try:
            results[case.method] = {"refused": case.refused}
            if case.order is not None:
                results[case.method] = summary(case, run_case(case, options), options)
        except ValueError as error:
            results[case.method] = {"refused": str(error)}
    if console is not None:
        console.print(table(results, title=f"{options.problem}, {problem.ranks} ranks, {options.unit_ms:g} ms a unit"))
    return results


def table(results: dict[str, Figures], *, title: str) -> Table:
    """Makespans in ms, bubble ratios, and each measured makespan against serial's."""
    made = Table(title=title)
    heads = ("method", "planned ms", "replayed", "measured", "meas./repl.")
    for head in (*heads, "bubble planned", "replayed", "measured", "serial / it"):
        made.add_column(head, justify="left" if head == "method" else "right")
    serial = results.get("serial", {}).get("measured_makespan_ms")
    for method, found in results.items():
        if "refused" in found:
            made.add_row(method, f"refused: {found['refused']}")
            continue
        spans = [f"{found[f'{kind}_makespan_ms']:.1f}" for kind in ("planned", "replayed", "measured")]
        bubbles = [f"{found[f'{kind}_bubble']:.4f}" for kind in ("planned", "replayed", "measured")]
        faster = f"{serial / found['measured_makespan_ms']:.3f}" if serial else ""
        made.add_row(method, *spans, f"{found['measured_over_replayed']:.3f}", *bubbles, faster)
    return made


def main() -> None:
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    try:
        options = arguments.read(Options, sys.argv[1:])
        problem = load_problem(options, world=world)
        for key, folder in (("out", options.out and options.out.resolve().parent), ("trace", options.trace)):
            if folder is not None and not folder.is_dir():
                raise ArgumentError(f"{key}: there is no folder {folder}")
    except (ArgumentError, ProblemError, OSError) as error:
        _stop(str(error), rank=rank)
    torch.set_num_threads(1)
    sharpen_sleep()
    _join(options)
    try:
        results = run(options, problem=problem, console=_console() if rank == 0 else None)
    except PipelineError:  # the rank that failed first has told why
        sys.exit(1)
    finally:
        dist.destroy_process_group()
    if rank == 0 and options.out is not None:
        write_file(options.out, json.dumps(results, indent=2) + "\n")


def _join(options: Options) -> None:
    """Ranks wait for rank 0 to solve all the methods, so the world's limit is longer than a message's."""
    limit = timedelta(seconds=options.timeout + solving_limit(options.methods, limits=options.limits))
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("gloo", timeout=limit, **alone)


def _console() -> Console:
    """As wide as the table where the output is a file."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def _stop(reason: str, *, rank: int) -> NoReturn:
    """End with code 2; rank 0 tells why, the others wait for the launcher to end them."""
    if rank == 0:
        print(f"fusedrl.bench.pipeline: {reason}", file=sys.stderr, flush=True)
    else:
        time.sleep(WAIT_S)
    sys.exit(BAD_ARGUMENTS)


if __name__ == "__main__":
    main()

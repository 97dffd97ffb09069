"""F, B and W of the stages of an actor and a critic, by tokens, measured by the executor's own clock, as a problem.

One micro-batch at a time, first one model, then the other, on one rank that holds both stages of each:

    actor:F0@0 F0@1 B0@1 W0@1 B0@0 W0@0   actor:F1@0 ...   critic:...

The problem that comes out has each model's two stages on two ranks, and its micro-batches are the token counts:
durations in ms, activations in GiB. `python -m schedules solve cost_profile.yaml` reads it as any other.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import yaml

from fusedrl.bench.checks import Failed
from fusedrl.bench.pair import NAMES, Batches, Pair
from fusedrl.pipeline.executor import PassResult
from fusedrl.pipeline.plan import make_problem
from fusedrl.pipeline.program import Program, make_program
from fusedrl.pipeline.training import train_pass
from schedules.order import Op, Order
from schedules.problem import Kind, Model, Problem

STAGES = 2
BACKWARD: tuple[Kind, Kind] = ("B", "W")
WARM_UP = 1  # first passes, left out
GIB = 2**30


def one_at_a_time(pair: Pair, batches: Batches) -> Program:
    """The order above."""
    problem = make_problem(pair.planned(batches), split=True)
    row: list[Op] = []
    for name in NAMES:
        for m in range(len(batches[name])):
            row += [Op(name, "F", m, stage) for stage in range(STAGES)]
            row += [Op(name, kind, m, stage) for stage in reversed(range(STAGES)) for kind in BACKWARD]
    return make_program(problem, Order((tuple(row),)))


def measure_passes(pair: Pair, batches: Batches, *, passes: int) -> list[PassResult]:
    """Training passes without optimizer steps, after a warm-up that is left out."""
    program = one_at_a_time(pair, batches)
    results = [
        train_pass(pair.executor, program, pair.work(batches), models=pair.models) for _ in range(WARM_UP + passes)
    ]
    return results[WARM_UP:]


def held_bytes(pair: Pair, batches: Batches) -> dict[tuple[str, int, int], int]:
    """What autograd saves in each forward, by (model, stage, micro-batch)."""
    program = one_at_a_time(pair, batches)
    work = pair.work(batches)
    result = train_pass(pair.executor, program, work, models=pair.models, measure_memory=True)
    found, before = {}, 0
    for held in result.memory:
        if held.op.kind == "F":
            found[held.op.model, held.op.stage, held.op.microbatch] = held.nbytes - before
        before = held.nbytes
    return found


def median_ms(results: Iterable[PassResult]) -> dict[Op, float]:
    """Milliseconds of each op, the median over passes. Raises Failed for a time that is none."""
    seen: dict[Op, list[float]] = {}
    for result in results:
        for timed in result.ops:
            seen.setdefault(timed.op, []).append((timed.end - timed.start) / 1e6)
    found = {op: statistics.median(each) for op, each in seen.items()}
    for op, duration in found.items():
        if not (math.isfinite(duration) and duration > 0):
            raise Failed(f"{op} took {duration} ms by the clock")
    return found


def profile_of(times: Mapping[Op, float], held: Mapping[tuple[str, int, int], int]) -> Problem:
    """The measured problem on two ranks; held: bytes by (model, stage, micro-batch)."""
    return Problem(ranks=STAGES, models=tuple(_model(name, times, held) for name in NAMES))


def _model(name: str, times: Mapping[Op, float], held: Mapping[tuple[str, int, int], int]) -> Model:
    microbatches = 1 + max(op.microbatch for op in times if op.model == name)

    stages = tuple(range(STAGES))

    def matrix(*kinds: Kind) -> list[list[float]]:
        def total(stage: int, microbatch: int) -> float:
            return round(sum(times[Op(name, kind, microbatch, stage)] for kind in kinds), 6)

        return [[total(s, m) for m in range(microbatches)] for s in stages]

    return Model(
        name=name,
        placement=stages if name == "actor" else stages[::-1],
        microbatches=microbatches,
        forward=matrix("F"),
        backward=matrix(*BACKWARD),
        backward_weight=matrix("W"),
        activation=[[round(held[name, s, m] / GIB, 9) for m in range(microbatches)] for s in stages],
    )


def check_growth(problem: Problem) -> None:
    """More tokens take longer, on every stage. Raises Failed."""
    for model in problem.models:
        for stage in range(model.stages):
            row = [model.duration("F", stage, m) + model.duration("B", stage, m) for m in range(model.microbatches)]
            if sorted(row) != row:
                raise Failed(f"{model.name} stage {stage}: F+B took {row} ms for growing token counts")


def to_yaml(problem: Problem, *, tokens: Sequence[int], about: Sequence[str]) -> str:
    """A problem file whose header says where it was measured and what its micro-batches are."""
    lines = [*about, f"Micro-batches: {', '.join(map(str, tokens))} tokens. Times in ms, activations in GiB."]
    header = "".join(f"# {line}\n" for line in lines)
    return header + yaml.safe_dump(problem.to_dict(), sort_keys=False, default_flow_style=None, width=120)

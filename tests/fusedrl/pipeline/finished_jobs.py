"""What the executor runs and when it says that a model has nothing left to do on this rank."""

from functools import partial
from typing import Any
from unittest.mock import patch

import torch.distributed as dist

from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.pass_run import PassRun
from fusedrl.pipeline.program import make_program
from schedules.lower import Compute
from tests.distributed.pipeline_jobs import (
    BUILDERS,
    SPLITTING,
    microbatches,
    one_column_each,
    toy_loss,
    toy_model,
    toy_placements,
    toy_problem,
)


def finished(*, builder: str, copies: bool = False) -> list[str]:
    """ "MODEL at" for each instruction of a pass, "MODEL finished" where the executor called so.

    copies: two critics of half as many stages on the ranks of one actor."""
    world, counts = dist.get_world_size(), {"actor": 3, "critic": 2}
    placements, columns, in_program = _two_critics(world) if copies else _opposed(world)
    executor = Executor([toy_model(n, placement=p, columns=columns[n]) for n, p in placements.items()])
    of_copies = {name: counts[name.rstrip("01")] for name in in_program}
    problem = toy_problem(in_program, of_copies, split=builder in SPLITTING)
    program = make_program(problem, (BUILDERS | SPLITTING)[builder](problem))
    work = {n: Work(microbatches(counts[n], seed=1), loss=toy_loss(1)) for n in counts}
    log: list[str] = []
    step = PassRun.step

    def logged(self: PassRun, instruction: Any) -> None:
        what = instruction.op if isinstance(instruction, Compute) else instruction.message
        log.append(f"{what.model} at")
        step(self, instruction)

    with patch.object(PassRun, "step", logged):
        executor.run(program, work, finished={n: partial(log.append, f"{n} finished") for n in counts})
    executor.close()
    return log


Lie = tuple[dict[str, list[int]], dict[str, tuple[tuple[int, ...], ...]], dict[str, list[int]]]
"""Placements and columns of models, placements in the program."""


def _opposed(world: int) -> Lie:
    placements = toy_placements("opposed", world)
    return placements, dict.fromkeys(placements, one_column_each(world)), placements


def _two_critics(world: int) -> Lie:
    line, pairs = list(range(world)), [list(range(first, world, 2)) for first in range(2)]
    columns = {"actor": (tuple(line),), "critic": tuple(map(tuple, pairs))}
    in_program = {"actor": line, "critic0": pairs[0], "critic1": pairs[1]}
    return {"actor": line, "critic": list(range(world // 2))}, columns, in_program

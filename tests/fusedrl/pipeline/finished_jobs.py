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
    toy_lie,
    toy_loss,
    toy_model,
    toy_problem,
)


def finished(*, builder: str, kind: str = "opposed") -> list[str]:
    """ "MODEL at" for each instruction of a pass, "MODEL finished" where the executor called so."""
    world, counts = dist.get_world_size(), {"actor": 3, "critic": 2}
    lie = toy_lie(kind, world)
    executor = Executor([toy_model(n, placement=p, columns=lie.columns[n]) for n, p in lie.placements.items()])
    of_copies = {name: counts[name.rstrip("01")] for name in lie.in_program}
    problem = toy_problem(lie.in_program, of_copies, split=builder in SPLITTING)
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

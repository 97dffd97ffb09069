"""A run that one rank is asked to stop, on gloo ranks."""

import os
import signal
from typing import Any

import torch.distributed as dist

from fusedrl import sft
from fusedrl.config.load import load
from fusedrl.trainers.one_model import OneModelRun
from fusedrl.trainers.stopping import Stopped
from tests.fusedrl.trainers.checkpoint_jobs import listening


def whole_stopped_and_resumed(
    *, whole: list[str], stopped: list[str], rank: int, step: int
) -> tuple[str, list[str], list[Any]]:
    """An uninterrupted run; one where `rank` gets SIGUSR1 in `step`, then goes on: (what it was stopped with, what was
    told while it went on, handlers afterwards)."""
    before = [signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)]
    with listening():
        sft.run(load("sft", whole), command=["test"])
        reason = _signalled(stopped, rank=rank, step=step)
    after = [signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)]
    with listening() as told:
        sft.run(load("sft", stopped), command=["test"])
    return reason, told, [one == other for one, other in zip(before, after, strict=True)]


def _signalled(overrides: list[str], *, rank: int, step: int) -> str:
    optimize, done = OneModelRun.optimize, 0

    def counted(self: OneModelRun, *arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done == step and dist.get_rank() == rank:
            os.kill(os.getpid(), signal.SIGUSR1)
        return optimize(self, *arguments)

    OneModelRun.optimize = counted  # type: ignore[method-assign, assignment]
    try:
        sft.run(load("sft", overrides), command=["test"])
    except Stopped as asked:
        return str(asked)
    finally:
        OneModelRun.optimize = optimize  # type: ignore[method-assign]
    return "not stopped"

"""Faults for tests: what breaks, in which phase of which step, on which rank. The run itself knows nothing of them.

    meet(Fault("kill", phase="training", step=3, rank=1))       # in the rank's process, before the run starts

A fault wraps one method of the product, the place where a phase does its work. `step` is counted by the trainer's own
loop. What a fault does:

    kill      SIGKILL to itself
    stuck     SIGSTOP to itself
    term      SIGTERM to itself
    full      from here on this rank can write no file: the size limit of the process is 0, as on a full disk every
              write fails, whoever makes it; pipes go on
    nan       the model's loss is not a number, in `step` and the `more` steps after it; with the phase "inference"
              the reference's log-probabilities are none

With a folder, the ranks that are well wait at the same place until the fault is there, and lose patience (patience.py).
"""

import json
import math
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

from tests.faults import patience

NOTES = {"kill": "killed", "stuck": "stopped"}  # files by which a rank tells that it goes


@dataclass(frozen=True)
class Fault:
    """call: which call of the phase's method in the step. folder: for the note of a rank that stops. model: of nan."""

    kind: str
    phase: str
    step: int
    rank: int = 1
    call: int = 1
    more: int = 0
    folder: str = ""
    model: str = "actor"

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of_text(text: str) -> "Fault | None":
        return Fault(**json.loads(text)) if text else None


def places() -> dict[str, tuple[Any, str]]:
    """Where each phase does its work. Imported late: a rank decides first which libraries are hushed."""
    from fusedrl.checkpoint import saver
    from fusedrl.models.training import TrainableModel
    from fusedrl.pipeline.pass_run import PassRun
    from fusedrl.rollout.exchange import Exchange
    from fusedrl.rollout.megatron import MegatronEngine
    from fusedrl.trainers import outputs
    from fusedrl.trainers.readers import Readers

    return {
        "hand_over": (Exchange, "run"),
        "generation": (MegatronEngine, "step"),
        "reading": (Readers, "infer"),  # the stream's inference
        "inference": (PassRun, "_infer"),
        "forward": (PassRun, "_forward"),
        "training": (PassRun, "_backward"),
        "optimizer": (TrainableModel, "step"),
        "save": (saver, "write_tensors"),
        "publish": (saver.Saver, "_publish"),  # on rank 0
        "export": (outputs, "export_hf"),
    }


class Course:
    """Where the run of this process is."""

    def __init__(self) -> None:
        self.step, self.calls = 0, 0

    def follow(self) -> None:
        """Count the trainer's steps."""
        from fusedrl.trainers.ppo import PPO

        begin = PPO.step

        @wraps(begin)
        def counted(run: PPO, step: int) -> dict[str, float]:
            self.step, self.calls = step, 0
            return begin(run, step)

        PPO.step = counted  # type: ignore[method-assign, assignment]


def meet(fault: Fault | None) -> None:
    """Have this process meet the fault."""
    if fault is None:
        return
    course = Course()
    course.follow()
    if fault.kind == "nan":
        _spoil_losses(fault, course)
        return
    owner, name = places()[fault.phase]
    work = getattr(owner, name)

    @wraps(work)
    def breaking(*arguments: Any, **options: Any) -> Any:
        if course.step == fault.step:
            course.calls += 1
            if course.calls == fault.call:
                _break(fault)
        return work(*arguments, **options)

    setattr(owner, name, breaking)


def _break(fault: Fault) -> None:
    mine, note = int(os.environ["RANK"]) == fault.rank, Path(fault.folder) / NOTES.get(fault.kind, "")
    if fault.kind in NOTES and fault.folder and not mine:
        patience.wait_for(note.exists)
        patience.lose()
    elif mine:
        if fault.kind in NOTES and fault.folder:
            note.touch()
        _ACTS[fault.kind]()


def _write_no_more() -> None:
    """Python ignores SIGXFSZ, so that a write fails with an OSError."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


_ACTS: dict[str, Callable[[], Any]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stuck": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "full": _write_no_more,
}


def _spoil_losses(fault: Fault, course: Course) -> None:
    from fusedrl.trainers import ppo, update

    infer = ppo.infer

    @wraps(infer)
    def inferred(*arguments: Any, **options: Any) -> dict[str, Any]:
        found = infer(*arguments, **options)
        spoil = fault.phase == "inference" and fault.step <= course.step <= fault.step + fault.more
        return {**found, "ref_logp": found["ref_logp"] * math.nan} if spoil else found

    ppo.infer = inferred
    train_pass = update.train_pass

    @wraps(train_pass)
    def spoiled(executor: Any, program: Any, work: Any, **options: Any) -> Any:
        spoil = fault.phase == "training" and fault.step <= course.step <= fault.step + fault.more
        if spoil and fault.model in work:
            good = work[fault.model]

            def loss(output: Any, microbatch: Any) -> Any:
                value, metrics = good.loss(output, microbatch)
                return value * math.nan, metrics

            work = {**work, fault.model: replace(good, loss=loss)}
        return train_pass(executor, program, work, **options)

    update.train_pass = spoiled

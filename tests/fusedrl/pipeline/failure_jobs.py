"""Jobs in which something breaks, or must be refused, on the toy models of pipeline_jobs.py; and the mailbox alone."""

import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.failure import PipelineError
from fusedrl.pipeline.messages import Mailbox, arrival
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.program import Program, make_program
from schedules.builders.greedy import greedy
from schedules.builders.serial import serial_1f1b
from schedules.lower import Message, Send
from schedules.passes import split_backward
from tests.distributed.pipeline_jobs import (
    microbatches,
    one_column_each,
    toy_loss,
    toy_model,
    toy_placements,
    toy_problem,
)


class Failing:
    """A stage that raises, stalls, or is killed, at one call."""

    def __init__(self, stage: Any, *, at: int, stall: float = 0.0, killed: bool = False) -> None:
        self._stage, self._at, self._stall, self._killed, self._calls = stage, at, stall, killed, 0

    def __call__(self, microbatch: MicroBatch, received: Tensor | None) -> Tensor:
        self._calls += 1
        if self._calls == self._at:
            if self._killed:
                os.kill(os.getpid(), signal.SIGKILL)
            if not self._stall:
                raise ZeroDivisionError("the stage was told to fail")
            time.sleep(self._stall)
        return self._stage(microbatch, received)


def without_send(program: Program, *, column: int, number: int) -> Program:
    """A broken program: one column never sends its `number`-th message."""
    row = list(program.instructions[column])
    sends = [i for i, each in enumerate(row) if isinstance(each, Send)]
    del row[sends[number]]
    rows = list(program.instructions)
    rows[column] = tuple(row)
    return replace(program, instructions=tuple(rows))


def fail_toy(*, how: str, timeout: float, failing: int = 0) -> dict[str, Any]:
    """A pass that breaks on one rank; what this rank saw, and how long it took to see it."""
    world = dist.get_world_size()
    placements = toy_placements("opposed", world)
    models = [toy_model(name, placement=p, columns=one_column_each(world)) for name, p in placements.items()]
    if how in ("raise", "stuck", "killed") and dist.get_rank() == failing:
        options: dict[str, Any] = {"at": 2, "stall": 4 * timeout if how == "stuck" else 0.0, "killed": how == "killed"}
        models[0] = replace(models[0], stages={s: Failing(m, **options) for s, m in models[0].stages.items()})
    executor = Executor(models, timeout=timeout)
    counts = {"actor": 4, "critic": 2}
    problem = toy_problem(placements, counts)
    program = make_program(problem, greedy(problem))
    if how == "missing":
        program = without_send(program, column=failing, number=1)
    work = {name: Work(microbatches(count, seed=0), loss=toy_loss(1)) for name, count in counts.items()}
    begin = time.monotonic()
    with logged("fusedrl.pipeline") as lines:
        try:
            executor.run(program, work)
        except Exception as error:
            seconds = time.monotonic() - begin
            return _what_was_seen(error, executor, program, work, seconds=seconds) | {"logged": lines}
    return {"error": "none", "kind": "none", "seconds": time.monotonic() - begin, "logged": lines}


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """What a logger says inside."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger(name).addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger(name).removeHandler(handler)


def on_a_store(*, rank: int, world: int, store: str, out: str, **job: Any) -> None:
    """fail_toy in a process of its own; what it saw goes to a file, for a rank that may be killed tells nobody."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    seen = fail_toy(**job)
    Path(out).write_text(json.dumps(seen))
    os._exit(0)


def _what_was_seen(
    error: Exception, executor: Executor, program: Program, work: Any, *, seconds: float
) -> dict[str, Any]:
    try:
        executor.run(program, work)
        again = "ran"
    except Exception as second:
        again = str(second)
    return {"error": str(error), "kind": type(error).__name__, "seconds": seconds, "again": again}


def mailbox_toy(*, leave: bool = False) -> dict[str, Any]:
    """Rank 0 sends eight views of differing shapes and forgets them; rank 1 posts all and takes the last one first."""
    model = toy_model("actor", placement=(0, 1), columns=one_column_each(2))
    mailbox = Mailbox([model], timeout=10)
    messages = [Message("actor", "F", m, 0, 1, 0, 1) for m in range(8)]
    if dist.get_rank() == 0:
        for m, message in enumerate(messages):
            mailbox.send(message, torch.arange(2.0 * (m + 1)).view(2, m + 1).t() + m)
        mailbox.finish()
        return {}
    for m, message in enumerate(messages):
        mailbox.post(message, shape=(m + 1, 2), dtype=torch.float32, device=torch.device("cpu"))
    taken = {m: mailbox.take(arrival(messages[m])).tolist() for m in reversed(range(1 if leave else 0, 8))}
    try:
        mailbox.finish()
    except AssertionError as error:
        return {"taken": taken, "error": str(error)}
    return {"taken": taken, "error": ""}


def refused_toy() -> dict[str, str]:
    """What an executor on one rank refuses, by case."""

    class Configured(nn.Module):
        def __init__(self, config: object) -> None:
            super().__init__()
            self.config = config

    actor = toy_model("actor", placement=(0,), columns=((0,),))
    executor = Executor([actor])
    problem = toy_problem({"actor": [0]}, {"actor": 2})
    program = make_program(problem, serial_1f1b(problem))
    parted = toy_problem({"actor": [0]}, {"actor": 2}, split=True)
    split = make_program(parted, split_backward(parted, serial_1f1b(parted)))
    two, loss = microbatches(2, seed=0), toy_loss(1)
    shared = Configured(object())
    replaced = {s: lambda m, r, whole=stage: whole(m, r)[..., :1] for s, stage in actor.stages.items()}
    long = toy_model("actor", placement=(0, 0), columns=((0,),))
    long_problem = toy_problem({"actor": [0, 0]}, {"actor": 1})
    cut = replace(long, stages={0: lambda m, r: long.stages[0](m, r)[..., :1], 1: long.stages[1]})
    cases = {
        "counts": lambda: executor.run(program, {"actor": Work(two[:1], loss=loss)}),
        "no loss": lambda: executor.run(program, {"actor": Work(two)}),
        "stranger": lambda: executor.run(program, {"critic": Work(two, loss=loss)}),
        "both": lambda: Work(two, loss=loss, collect=lambda output, microbatch: None),
        "twice": lambda: Executor([actor, actor]),
        "stages": lambda: Executor([replace(actor, stages={})]),
        "config": lambda: Executor([replace(actor, name=name, modules=(shared,)) for name in ("actor", "critic")]),
        "whole": lambda: Executor([replace(actor, splits=False)]).run(split, {"actor": Work(two, loss=loss)}),
        "placement": lambda: Executor([long]).run(program, {"actor": Work(two, loss=loss)}),
        "loss": lambda: Executor([replace(actor, stages=replaced)]).run(
            program, {"actor": Work(two, loss=lambda output, microbatch: (output, {}))}
        ),
        "shape": lambda: Executor([cut]).run(
            make_program(long_problem, serial_1f1b(long_problem)), {"actor": Work(two[:1], loss=loss)}
        ),
    }
    return {case: _error_of(attempt) for case, attempt in cases.items()}


def _error_of(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except (ValueError, PipelineError) as error:
        return str(error)
    return ""

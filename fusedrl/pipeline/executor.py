"""Runs one rank's instruction list: computes on its stages, sends, receives. It makes no choices.

    executor = Executor(models, timeout=600)        # once, on all ranks: makes the message groups
    result = executor.run(program, {"actor": Work(microbatches, loss=...), "critic": Work(...)})

The law: an order changes when work happens, never what is computed. So nothing here depends on the order but time:
each op reads its own micro-batch and the entries of its own (model, stage, micro-batch), and a stage's gradients add up
in micro-batch order, which the program's check demands.

A model with a loss trains (F and B); one without runs F alone, in eval mode and without a graph.
"""

import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import torch
import torch.distributed as dist

from fusedrl.pipeline.failure import MessageTimeout, PipelineError, marked_grid, report_failure
from fusedrl.pipeline.messages import Mailbox
from fusedrl.pipeline.pass_run import ModelResult, PassResult, PassRun, Work
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.stage import PipelineModel
from fusedrl.pipeline.timeline import Clock, CudaClock, HostClock
from schedules.lower import Compute, Instruction
from schedules.order import Op
from schedules.problem import Model

__all__ = ["Executor", "ModelResult", "PassResult", "Work"]

_serial = itertools.count()


class Executor:
    """The models of a job on this rank, and their messages. All ranks make it and run it together, in one sequence.

    timeout: seconds that a message may take. After a failure the ranks are out of step: the executor refuses to go on.
    """

    def __init__(self, models: Sequence[PipelineModel], *, timeout: float = 600.0) -> None:
        self.models = {model.name: model for model in models}
        if len(self.models) != len(models):
            raise ValueError(f"models: a name is used twice in {[model.name for model in models]}")
        _check_separate(models)
        rank = dist.get_rank()
        for model in models:
            if sorted(model.stages) != list(model.held_by(rank)):
                held = f"holds {sorted(model.stages)}, its placement says {list(model.held_by(rank))}"
                raise ValueError(f"model {model.name}: stages of rank {rank}: {held}")
        self.mailbox = Mailbox(models, timeout=timeout)
        self._failure_key = f"fusedrl/pipeline/failure{_agreed_serial(models[0].device)}"
        self._failed = False

    def run(self, program: Program, work: Mapping[str, Work]) -> PassResult:
        """Run this rank's list. Raises PipelineError (MessageTimeout) naming the op, with the grid."""
        if self._failed:
            raise PipelineError("an earlier pass failed, the ranks are out of step: make a new executor")
        self._check(program, work)
        for name in work:
            if (prepare := self.models[name].before_pass) is not None:
                prepare()
        column = self._column(program)
        run = PassRun(self.models, work, mailbox=self.mailbox, clock=self._clock(program))
        with _modes({name: self.models[name] for name in work}, work), _without_garbage_collection():
            for number, instruction in enumerate(program.instructions[column]):
                try:
                    run.step(instruction)
                except Exception as error:
                    self._fail(error, program, column=column, number=number)
            try:
                return run.finish()
            except Exception as error:
                self._fail(error, program, column=column, number=len(program.instructions[column]))

    def _column(self, program: Program) -> int:
        name = program.problem.models[0].name
        return self.models[name].ranks(dist.get_rank()).index(dist.get_rank())

    def _clock(self, program: Program) -> Clock:
        on_gpu = any(self.models[model.name].device.type == "cuda" for model in program.problem.models)
        return CudaClock() if on_gpu else HostClock()

    def _check(self, program: Program, work: Mapping[str, Work]) -> None:
        planned = {model.name: model for model in program.problem.models}
        if set(planned) != set(work) or not set(work) <= set(self.models):
            held = f"work is for {sorted(work)}, models: {sorted(self.models)}"
            raise ValueError(f"the program runs {sorted(planned)}, {held}")
        for name, model in planned.items():
            _check_model(model, self.models[name].placement, work[name])

    def _fail(self, error: Exception, program: Program, *, column: int, number: int) -> NoReturn:
        self._failed = True
        instructions = program.instructions[column]
        op = _op_at(instructions, number)
        at = str(instructions[number]) if number < len(instructions) else "end of the pass"
        reason = f"rank {dist.get_rank()} (column {column}) at {at}: {type(error).__name__}: {error}"
        first = report_failure(self._failure_key, reason)
        cause = f"\nfailed first: {first}" if first else ""
        grid = marked_grid(program.order, column=column, op=op)
        kind = MessageTimeout if isinstance(error, MessageTimeout) else PipelineError
        raise kind(f"{reason}{cause}\n{grid}") from error


def _check_separate(models: Sequence[PipelineModel]) -> None:
    """Megatron-Core hangs callbacks of a schedule on a module's config: two models must not share one."""
    owner: dict[int, str] = {}
    for model in models:
        for config in (getattr(module, "config", None) for module in model.modules):
            if config is not None and owner.setdefault(id(config), model.name) != model.name:
                raise ValueError(
                    f"models {owner[id(config)]} and {model.name} share a config object; build one for each"
                )


def _check_model(planned: Model, placement: tuple[int, ...], work: Work) -> None:
    there, given = tuple(planned.ranks_of(stage)[0] for stage in range(planned.stages)), len(work.microbatches)
    if there != placement:
        raise ValueError(f"{planned.name}: placement {there} in the program, {placement} in the model")
    if planned.microbatches != given:
        raise ValueError(f"{planned.name}: {given} micro-batches given, the program has {planned.microbatches}")
    if planned.trains != (work.loss is not None):
        kind = "trains" if planned.trains else "is forward-only"
        raise ValueError(f"{planned.name}: {kind} in the program; give a loss to train, and none otherwise")


def _agreed_serial(device: torch.device) -> int:
    """A number that names this executor on all ranks, also where processes made different ones before."""
    serial = torch.tensor([next(_serial)], device=device)
    dist.all_reduce(serial, op=dist.ReduceOp.MAX)
    return int(serial)


def _op_at(instructions: Sequence[Instruction], number: int) -> Op | None:
    """The op that runs at an instruction, or the next one after a send or receive (the last one, at the end)."""
    ops = [each.op for each in instructions[number:] if isinstance(each, Compute)]
    before = [each.op for each in instructions[:number] if isinstance(each, Compute)]
    return ops[0] if ops else before[-1] if before else None


@contextmanager
def _modes(models: Mapping[str, PipelineModel], work: Mapping[str, Work]) -> Iterator[None]:
    """Train mode for models that train, eval mode for the others; as it was before, afterwards."""
    before = [(module, module.training) for model in models.values() for module in model.modules]
    for name, model in models.items():
        for module in model.modules:
            _set_mode(module, work[name].loss is not None)
    try:
        yield
    finally:
        for module, training in before:
            _set_mode(module, training)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A full collection takes as long as many ops, on one rank while the others wait for it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _set_mode(module: torch.nn.Module, training: bool) -> None:
    if module.training != training:  # walks the whole tree: only when it changes something
        module.train(training)

"""Runs one rank's instruction list: computes on its stages, sends, receives. It makes no choices.

    executor = Executor(models, timeout=600)        # once, on all ranks: makes the message groups
    result = executor.run(program, {"actor": Work(microbatches, loss=...), "critic": Work(...)})

The law: an order changes when work happens, never what is computed. So nothing here depends on the order but time:
each op reads its own micro-batch and the entries of its own (model, stage, micro-batch), and a stage's gradients add up
in micro-batch order, which the program's check demands.

A model with a loss trains (F and B, and W where the order splits B); one without runs F alone, in eval mode and without
a graph.
"""

import gc
import itertools
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import torch
import torch.distributed as dist

from fusedrl.pipeline.cuda_clock import CudaClock
from fusedrl.pipeline.failure import Board, MessageTimeout, PipelineError, marked_grid
from fusedrl.pipeline.memory import MemoryMeter
from fusedrl.pipeline.messages import Mailbox
from fusedrl.pipeline.pass_run import ModelResult, PassResult, PassRun, Work
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.stage import PipelineModel
from fusedrl.pipeline.timeline import Clock, HostClock
from fusedrl.pipeline.watchdog import COLLECT_S, Standing, Watchdog, logger
from schedules.lower import Compute, Instruction
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
        self._timeout = timeout
        self._board = Board(f"fusedrl/pipeline/failure{_agreed_serial(models[0].device)}")
        self._failed = False

    def run(
        self,
        program: Program,
        work: Mapping[str, Work],
        *,
        measure_memory: bool = False,
        finished: Mapping[str, Callable[[], None]] | None = None,
    ) -> PassResult:
        """Run this rank's list. Raises PipelineError (MessageTimeout) naming the op, with the grid.

        measure_memory: follow what is held for backwards, which costs some time in each forward.
        finished: by model, what to call once it has nothing left to do on this rank, while others may go on.
        """
        if self._failed:
            raise PipelineError("an earlier pass failed, the ranks are out of step: make a new executor")
        self._check(program, work)
        for name in work:
            if (prepare := self.models[name].before_pass) is not None:
                prepare()
        meter = MemoryMeter(self._parameters(work)) if measure_memory else None
        run = PassRun(
            self.models, work, mailbox=self.mailbox, clock=self._clock(program), split=program.split, meter=meter
        )
        standing = Standing(program, rank=dist.get_rank(), column=self._column(program), mailbox=self.mailbox)
        with ExitStack() as region:
            region.enter_context(_modes({name: self.models[name] for name in work}, work))
            region.enter_context(_without_garbage_collection())
            region.enter_context(Watchdog(standing, board=self._board, limit=self._timeout))
            try:
                instructions = program.instructions[standing.column]
                ends = last_of_models(instructions)
                for number, instruction in enumerate(instructions):
                    run.step(instruction)
                    standing.number += 1
                    if finished and ends.get(number, "") in finished:
                        finished[ends[number]]()
                return run.finish()
            except Exception as error:
                self._fail(error, standing)

    def close(self) -> None:
        """Give the message groups up, on all ranks; the executor cannot run any more."""
        self._failed = True
        self.mailbox.close()

    def _parameters(self, names: Iterable[str]) -> Iterator[torch.Tensor]:
        return (p for name in names for module in self.models[name].modules for p in module.parameters())

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
        for name in sorted({name for name, _, _ in program.split}):
            if not self.models[name].splits:
                reason = "its layers compute both gradients at once, or whole layers again; use an order without W"
                raise ValueError(f"{name}: the order splits its backwards, {reason}")

    def _fail(self, error: Exception, standing: Standing) -> NoReturn:
        """Log where this rank stands, find out who failed first; the first rank that comes here tells the whole."""
        self._failed = True
        reason = f"{standing.place}: {type(error).__name__}: {error}"
        standing.tell(reason, board=self._board)
        first = self._board.report(reason)
        text = reason + (f"\nfailed first: {first}" if first else "")
        tells = self._board.claim(standing.rank)
        if tells:
            text += "".join(f"\n  {line}" for line in self._others(standing))
        grid = marked_grid(standing.program.order, column=standing.column, op=standing.op)
        kind = MessageTimeout if isinstance(error, MessageTimeout) else PipelineError
        told = kind(f"{text}\n{grid}")
        told.tells = tells
        self._leave(error, told)
        raise told from error

    def _others(self, standing: Standing) -> list[str]:
        """Where the other ranks of this pipeline stand."""
        name = standing.program.problem.models[0].name
        others = [rank for rank in self.models[name].ranks(standing.rank) if rank != standing.rank]
        found = self._board.standings(others, wait_s=COLLECT_S)
        return [found.get(rank, f"rank {rank} does not answer") for rank in others]

    def _leave(self, error: Exception, told: PipelineError) -> None:
        """Close the connections, which ends the others' waits; leave after the whole is told, or the launcher, which
        ends all ranks with the first, would end the one that tells it."""
        if not told.tells:
            self._board.wait_told()
        if isinstance(error, PipelineError):
            traceback.clear_frames(error.__traceback__)  # they hold messages, and these hold the connections
        if self.mailbox.on_host:
            self.mailbox.close()
        if told.tells:
            logger.error("%s", told, exc_info=None if isinstance(error, PipelineError) else error)
            self._board.tell()


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


def last_of_models(instructions: Sequence[Instruction]) -> dict[int, str]:
    """The model whose last instruction stands at a place of the list."""
    last: dict[str, int] = {}
    for number, instruction in enumerate(instructions):
        last[instruction.op.model if isinstance(instruction, Compute) else instruction.message.model] = number
    return {number: model for model, number in last.items()}


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

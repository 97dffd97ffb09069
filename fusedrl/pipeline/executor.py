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

from fusedrl.parallel.fusion import Fusion
from fusedrl.pipeline.copies import check_placements, fusion_of, own_instructions, own_split
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
        self._fusions: dict[frozenset[str], Fusion] = {}
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
        """Run this rank's list; nothing where it holds no model of the pass. `work` names all models of the pass, those
        that this rank has no part of without micro-batches. Raises PipelineError (MessageTimeout) naming the op, with
        the grid.

        measure_memory: follow what is held for backwards, which costs some time in each forward.
        finished: by model, what to call once it has nothing left to do on this rank, while others may go on; at the
        end of the pass where replicas of the model run one program: they come to their last ops at different times, and
        a reduction that waits for one of them, on a GPU a kernel that spins, may be what that one waits for.
        """
        if self._failed:
            raise PipelineError("an earlier pass failed, the ranks are out of step: make a new executor")
        fusion, rank = self._check(program, work), dist.get_rank()
        if not fusion.takes_part(rank):
            return PassResult({name: ModelResult() for name in work}, ())
        copies, column = fusion.copy_of[rank], fusion.column_of[rank]
        for name in work:
            if (prepare := self.models[name].before_pass) is not None:
                prepare()
        meter = MemoryMeter(self._parameters(work)) if measure_memory else None
        split, clock = own_split(program.split, copies=copies), self._clock(work)
        run = PassRun(self.models, work, mailbox=self.mailbox, clock=clock, split=split, meter=meter)
        standing = Standing(program, rank=rank, column=column, mailbox=self.mailbox)
        calls = dict(finished or {})
        later = [calls.pop(name) for name in list(calls) if fusion.is_shared(name)]
        with ExitStack() as region:
            region.enter_context(_modes({name: self.models[name] for name in work}, work))
            region.enter_context(_without_garbage_collection())
            region.enter_context(Watchdog(standing, board=self._board, limit=self._timeout))
            try:
                instructions = own_instructions(program.instructions[column], self.models, copies=copies)
                ends = last_of_models(instructions)
                for number, instruction in enumerate(instructions):
                    run.step(instruction)
                    standing.number += 1
                    if calls and ends.get(number, "") in calls:
                        calls[ends[number]]()
                result = run.finish()
                for call in later:
                    call()
                return result
            except Exception as error:
                self._fail(error, standing, names=work)

    def holds(self, name: str) -> bool:
        """Whether this rank has a part of a model."""
        return self.models[name].holds(dist.get_rank())

    def fusion(self, names: Iterable[str]) -> Fusion:
        """How the models of a pass lie together on the world."""
        key = frozenset(names)
        if key not in self._fusions:
            self._fusions[key] = fusion_of(model for name, model in self.models.items() if name in key)
        return self._fusions[key]

    def close(self) -> None:
        """Give the message groups up, on all ranks; the executor cannot run any more."""
        self._failed = True
        self.mailbox.close()

    def _parameters(self, names: Iterable[str]) -> Iterator[torch.Tensor]:
        return (p for name in names for module in self.models[name].modules for p in module.parameters())

    def _clock(self, names: Iterable[str]) -> Clock:
        on_gpu = any(self.models[name].device.type == "cuda" for name in names)
        return CudaClock() if on_gpu else HostClock()

    def _check(self, program: Program, work: Mapping[str, Work]) -> Fusion:
        planned = {model.name: model for model in program.problem.models}
        fusion = self.fusion(work) if set(work) <= set(self.models) else None
        if fusion is None or set(planned) != {copy.name for copy in fusion.copies}:
            held = f"work is for {sorted(work)}, models: {sorted(self.models)}"
            raise ValueError(f"the program runs {sorted(planned)}, {held}")
        check_placements(program.problem, fusion)
        models = {copy.name: copy.model for copy in fusion.copies if self.holds(copy.model)}
        for copy, name in models.items():
            _check_work(planned[copy], work[name])
        for name in sorted({models[copy] for copy, _, _ in program.split if copy in models}):
            if not self.models[name].splits:
                reason = "its layers compute both gradients at once, or whole layers again; use an order without W"
                raise ValueError(f"{name}: the order splits its backwards, {reason}")
        return fusion

    def _fail(self, error: Exception, standing: Standing, *, names: Iterable[str]) -> NoReturn:
        """Log where this rank stands, find out who failed first; the first rank that comes here tells the whole."""
        self._failed = True
        reason = f"{standing.place}: {type(error).__name__}: {error}"
        standing.tell(reason, board=self._board)
        first = self._board.report(reason)
        text = reason + (f"\nfailed first: {first}" if first else "")
        tells = self._board.claim(standing.rank)
        if tells:
            text += "".join(f"\n  {line}" for line in self._others(standing, names))
        grid = marked_grid(standing.program.order, column=standing.column, op=standing.op)
        kind = MessageTimeout if isinstance(error, MessageTimeout) else PipelineError
        told = kind(f"{text}\n{grid}")
        told.tells = tells
        self._leave(error, told)
        raise told from error

    def _others(self, standing: Standing, names: Iterable[str]) -> list[str]:
        """Where the other ranks of this rank's pipelines stand."""
        held = (self.models[name] for name in names if self.models[name].holds(standing.rank))
        pipelines = (model.ranks(standing.rank) for model in held)
        others = [rank for rank in dict.fromkeys(itertools.chain(*pipelines)) if rank != standing.rank]
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


def _check_work(planned: Model, work: Work) -> None:
    given = len(work.microbatches)
    if planned.microbatches != given:
        raise ValueError(f"{planned.name}: {given} micro-batches given, the program has {planned.microbatches}")
    if planned.trains != (work.loss is not None):
        kind = "trains" if planned.trains else "is forward-only"
        raise ValueError(f"{planned.name}: {kind} in the program; give a loss to train, and none otherwise")


def _agreed_serial(device: torch.device) -> int:
    """A number that names this executor on all ranks of the job, also where processes made different ones before."""
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

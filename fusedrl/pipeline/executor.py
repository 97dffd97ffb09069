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
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.pipeline.failure import MessageTimeout, PipelineError, marked_grid, report_failure
from fusedrl.pipeline.messages import Key, Mailbox
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.stage import (
    CollectFunction,
    InFlight,
    LossFunction,
    Metrics,
    PipelineModel,
    backward,
    forward,
)
from fusedrl.pipeline.timeline import Clock, CudaClock, HostClock, TimedOp
from schedules.lower import Compute, Instruction, Recv, Send
from schedules.order import Op
from schedules.problem import Model

_serial = itertools.count()


@dataclass(frozen=True, eq=False)
class Work:
    """What a model does in one pass: its micro-batches, and the loss it trains on or what to keep of its outputs."""

    microbatches: Sequence[MicroBatch]
    loss: LossFunction | None = None
    collect: CollectFunction | None = None

    def __post_init__(self) -> None:
        if self.loss is not None and self.collect is not None:
            raise ValueError("work: give a loss (trains) or collect (forward-only), not both")


@dataclass(frozen=True, eq=False)
class ModelResult:
    """What a model's last stage gave, by micro-batch; empty on ranks that do not hold it."""

    metrics: dict[int, Metrics] = field(default_factory=dict)
    outputs: dict[int, Any] = field(default_factory=dict)

    def sums(self) -> dict[str, float]:
        """Each metric summed over this rank's micro-batches, in their order."""
        totals: dict[str, float] = {}
        for _, metrics in sorted(self.metrics.items()):
            for name, value in metrics.items():
                totals[name] = totals.get(name, 0.0) + float(value)
        return totals


@dataclass(frozen=True, eq=False)
class PassResult:
    """A pass on this rank: results by model, and when its ops ran."""

    models: dict[str, ModelResult]
    ops: tuple[TimedOp, ...]


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
        run = _Pass(self.models, work, mailbox=self.mailbox, clock=self._clock(program))
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


class _Pass:
    """The state of one pass: every entry is keyed by what it belongs to, and all tables are empty at the end."""

    def __init__(
        self, models: Mapping[str, PipelineModel], work: Mapping[str, Work], *, mailbox: Mailbox, clock: Clock
    ) -> None:
        self._models, self._work, self._mailbox, self._clock = models, work, mailbox, clock
        self._results = {name: ModelResult() for name in work}
        self._in_flight: dict[tuple[str, int, int], InFlight] = {}  # (model, stage, micro-batch)
        self._outgoing: dict[Key, Tensor] = {}  # made by an op, not yet handed to its send
        self._local: dict[Key, Tensor] = {}  # made by an op for another stage of this rank
        self._timed: list[tuple[Op, Any, Any]] = []

    def step(self, instruction: Instruction) -> None:
        if isinstance(instruction, Compute):
            self._compute(instruction.op)
        elif isinstance(instruction, Send):
            message = instruction.message
            key = (message.model, message.kind, message.microbatch, message.dst_stage)
            self._mailbox.send(message, self._outgoing.pop(key))
        elif isinstance(instruction, Recv):
            message = instruction.message
            model = self._models[message.model]
            shape = model.message_shape(self._work[message.model].microbatches[message.microbatch])
            self._mailbox.post(message, shape=shape, dtype=model.dtype, device=model.device)

    def finish(self) -> PassResult:
        self._mailbox.finish()
        left = [*self._in_flight, *self._outgoing, *self._local]
        assert not left, f"left over at the end of the pass: {left}"
        marks = self._clock.resolve([mark for _, start, end in self._timed for mark in (start, end)])
        ops = tuple(TimedOp(op, marks[2 * i], marks[2 * i + 1]) for i, (op, _, _) in enumerate(self._timed))
        return PassResult(self._results, ops)

    def _compute(self, op: Op) -> None:
        received = self._received(op)
        start = self._clock.mark()
        run = {"F": self._forward if self._work[op.model].loss else self._infer, "B": self._backward}[op.kind]
        run(op, received)
        self._timed.append((op, start, self._clock.mark()))

    def _received(self, op: Op) -> Tensor | None:
        """What the op waits for from another stage, once it is there."""
        edge = 0 if op.kind == "F" else len(self._models[op.model].placement) - 1
        if op.stage == edge:
            return None
        key = (op.model, op.kind, op.microbatch, op.stage)
        return self._local.pop(key) if key in self._local else self._mailbox.take(key)

    def _forward(self, op: Op, received: Tensor | None) -> None:
        model, work = self._models[op.model], self._work[op.model]
        loss = work.loss if model.is_last(op.stage) else None
        microbatch = work.microbatches[op.microbatch]
        with torch.enable_grad():
            output, done, metrics = forward(model.stages[op.stage], microbatch, received, loss=loss)
        self._in_flight[op.model, op.stage, op.microbatch] = done
        if loss is None:
            self._hand_on(op, output, to_stage=op.stage + 1)
        else:
            self._results[op.model].metrics[op.microbatch] = metrics

    def _infer(self, op: Op, received: Tensor | None) -> None:
        model, work = self._models[op.model], self._work[op.model]
        microbatch = work.microbatches[op.microbatch]
        with torch.no_grad():
            output = model.stages[op.stage](microbatch, received)
            if not model.is_last(op.stage):
                self._hand_on(op, output, to_stage=op.stage + 1)
            elif work.collect is not None:
                self._results[op.model].outputs[op.microbatch] = work.collect(output, microbatch)

    def _backward(self, op: Op, received: Tensor | None) -> None:
        gradient = backward(self._in_flight.pop((op.model, op.stage, op.microbatch)), received)
        if gradient is not None:
            self._hand_on(op, gradient, to_stage=op.stage - 1)

    def _hand_on(self, op: Op, tensor: Tensor, *, to_stage: int) -> None:
        model = self._models[op.model]
        expected = model.message_shape(self._work[op.model].microbatches[op.microbatch])
        if tuple(tensor.shape) != tuple(expected) or tensor.dtype != model.dtype:
            made = f"{list(tensor.shape)} {tensor.dtype}"
            raise ValueError(f"{op} made {made}, the next stage waits for {list(expected)} {model.dtype}")
        same_rank = model.placement[to_stage] == model.placement[op.stage]
        (self._local if same_rank else self._outgoing)[op.model, op.kind, op.microbatch, to_stage] = tensor

"""One pass on one rank: what it is given, its tables while it runs, what it gives.

Every table is keyed by what an entry belongs to, never by "the latest": orders may bring back any micro-batch next. All
tables are empty at the end.

    F:  received -> in flight, and on to the next stage
    B:  in flight -> gradient, and on to the previous stage; where split, what W will need stays
    W:  that -> the parameters' gradients
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fusedrl.pipeline.memory import Held, MemoryMeter
from fusedrl.pipeline.messages import Key, Mailbox
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.postponed import Postponed, postponing
from fusedrl.pipeline.stage import (
    CollectFunction,
    InFlight,
    LossFunction,
    Metrics,
    PipelineModel,
    backward,
    forward,
)
from fusedrl.pipeline.timeline import Clock, TimedOp
from schedules.graph import Split
from schedules.lower import Compute, Instruction, Recv, Send
from schedules.order import Op


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
    """A pass on this rank: results by model, when its ops ran, and what it held after each where that was measured."""

    models: dict[str, ModelResult]
    ops: tuple[TimedOp, ...]
    memory: tuple[Held, ...] = ()


class PassRun:
    """The state of one pass; `step` runs one instruction. split: the backwards whose weight part is a W of its own."""

    def __init__(
        self,
        models: Mapping[str, PipelineModel],
        work: Mapping[str, Work],
        *,
        mailbox: Mailbox,
        clock: Clock,
        split: Split = (),
        meter: MemoryMeter | None = None,
    ) -> None:
        self._models, self._work, self._mailbox, self._clock = models, work, mailbox, clock
        self._split, self._meter = frozenset(split), meter
        self._results = {name: ModelResult() for name in work}
        self._in_flight: dict[tuple[str, int, int], InFlight] = {}  # (model, stage, micro-batch)
        self._put_off: dict[tuple[str, int, int], Postponed] = {}  # between B and W
        self._outgoing: dict[Key, Tensor] = {}  # made by an op, not yet handed to its send
        self._local: dict[Key, Tensor] = {}  # made by an op for another stage of this rank
        self._timed: list[tuple[Op, Any, Any, Any]] = []  # start, end, since when it waited for its message
        self._sent: dict[Op, Any] = {}

    def step(self, instruction: Instruction) -> None:
        if isinstance(instruction, Compute):
            self._compute(instruction.op)
        elif isinstance(instruction, Send):
            message = instruction.message
            key = (message.model, message.kind, message.microbatch, message.dst_stage)
            self._sent[Op(message.model, message.kind, message.microbatch, message.src_stage)] = self._clock.mark()
            self._mailbox.send(message, self._outgoing.pop(key))
        elif isinstance(instruction, Recv):
            message = instruction.message
            model = self._models[message.model]
            shape = model.message_shape(self._work[message.model].microbatches[message.microbatch])
            self._mailbox.post(message, shape=shape, dtype=model.dtype, device=model.device)

    def finish(self) -> PassResult:
        self._mailbox.finish()
        left = [*self._in_flight, *self._put_off, *self._outgoing, *self._local]
        assert not left, f"left over at the end of the pass: {left}"
        return PassResult(self._results, self._resolved(), tuple(self._meter.curve) if self._meter else ())

    def _resolved(self) -> tuple[TimedOp, ...]:
        marks = [
            mark
            for op, start, end, asked in self._timed
            for mark in (start, end, start if asked is None else asked, self._sent.get(op, start))
        ]
        times = self._clock.resolve(marks)
        ops = []
        for number, (op, _, _, asked) in enumerate(self._timed):
            start, end, waited, sent = times[4 * number : 4 * number + 4]
            ops.append(TimedOp(op, start, end, None if asked is None else waited, sent if op in self._sent else None))
        return tuple(ops)

    def _compute(self, op: Op) -> None:
        asked = self._clock.mark()
        received, remote = self._received(op)
        start = self._clock.mark()
        forward = self._forward if self._work[op.model].loss else self._infer
        {"F": forward, "B": self._backward, "W": self._weights}[op.kind](op, received)
        self._timed.append((op, start, self._clock.mark(), asked if remote else None))
        if self._meter is not None:
            self._meter.note(op, [*self._in_flight, *self._put_off])

    def _received(self, op: Op) -> tuple[Tensor | None, bool]:
        """What the op waits for from another stage, once it is there, and whether it is another rank's."""
        edge = 0 if op.kind == "F" else len(self._models[op.model].placement) - 1
        if op.stage == edge or op.kind == "W":
            return None, False
        key = (op.model, op.kind, op.microbatch, op.stage)
        return (self._local.pop(key), False) if key in self._local else (self._mailbox.take(key), True)

    def _forward(self, op: Op, received: Tensor | None) -> None:
        model, work = self._models[op.model], self._work[op.model]
        loss = work.loss if model.is_last(op.stage) else None
        microbatch = work.microbatches[op.microbatch]
        key = (op.model, op.stage, op.microbatch)
        with torch.enable_grad(), self._meter.forward(key) if self._meter else nullcontext():
            output, done, metrics = forward(model.stages[op.stage], microbatch, received, loss=loss)
        self._in_flight[key] = done
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
        key, delayed = (op.model, op.stage, op.microbatch), self._models[op.model].delayed.get(op.stage)
        done = self._in_flight.pop(key)
        if key in self._split:
            with postponing() as put_off:
                gradient = backward(done, received)
            if delayed is not None:
                put_off.add(delayed)
            self._put_off[key] = put_off
        else:
            gradient = backward(done, received)
            if delayed is not None:
                delayed()
        if gradient is not None:
            self._hand_on(op, gradient, to_stage=op.stage - 1)

    def _weights(self, op: Op, received: None) -> None:
        self._put_off.pop((op.model, op.stage, op.microbatch)).run()

    def _hand_on(self, op: Op, tensor: Tensor, *, to_stage: int) -> None:
        model = self._models[op.model]
        expected = model.message_shape(self._work[op.model].microbatches[op.microbatch])
        if tuple(tensor.shape) != tuple(expected) or tensor.dtype != model.dtype:
            made = f"{list(tensor.shape)} {tensor.dtype}"
            raise ValueError(f"{op} made {made}, the next stage waits for {list(expected)} {model.dtype}")
        same_rank = model.placement[to_stage] == model.placement[op.stage]
        (self._local if same_rank else self._outgoing)[op.model, op.kind, op.microbatch, to_stage] = tensor

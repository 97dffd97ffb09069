"""Models whose stages sleep for as long as a problem says: everything of a pass is real but the computing.

Tensors of the asked size travel between ranks, and each op checks that what it received is its own micro-batch's.

    F: check the number received, sleep, send it on      B: the same with the gradient      W: sleep
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.postponed import postpone
from fusedrl.pipeline.stage import PipelineModel
from schedules.problem import Kind, Model, Problem, ProblemError

_EARLY_NS = 60_000  # a sleep ends so much before its deadline, about what waking takes
_PR_SET_TIMERSLACK = 29


def sharpen_sleep() -> None:
    """Let this thread's sleeps end when they are due; Linux delays them by 50 us otherwise. Elsewhere: nothing."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def sleep_until(deadline_ns: int) -> None:
    """Return at a moment of time.perf_counter_ns; the last microseconds are waited out awake."""
    left = deadline_ns - time.perf_counter_ns()
    if left > _EARLY_NS:
        time.sleep((left - _EARLY_NS) / 1e9)
    while time.perf_counter_ns() < deadline_ns:
        pass


@dataclass(frozen=True)
class Emulation:
    """How a problem is acted out. payload: bytes of a message, a multiple of 4."""

    unit_ms: float
    payload: int


class SleepingStage:
    """One stage; called like any other by the executor."""

    def __init__(self, model: Model, stage: int, emulation: Emulation) -> None:
        self._model, self._stage, self._emulation = model, stage, emulation
        self._anchor = torch.zeros((), requires_grad=True)  # what a first stage's output depends on
        self._numbers = max(1, emulation.payload // 4)

    def __call__(self, microbatch: MicroBatch, received: Tensor | None) -> Tensor:
        return _Sleep.apply(self._anchor if received is None else received, self, number_of(microbatch))

    def forward(self, received: Tensor, number: int) -> Tensor:
        began = time.perf_counter_ns()
        if received is not self._anchor and received.dim():
            _check(received, number, what=f"{self._model.name}: stage {self._stage} in F{number}")
        last = self._stage == self._model.stages - 1
        output = torch.full(() if last else (self._numbers,), float(number))
        self._sleep("F", number, began)
        return output

    def backward(self, gradient: Tensor, like: torch.Size, number: int) -> Tensor:
        began = time.perf_counter_ns()
        if gradient.dim():
            _check(gradient, number, what=f"{self._model.name}: stage {self._stage} in B{number}")
        result = torch.full(like, float(number))
        split = postpone(partial(self._weights, number))
        self._sleep("B", number, began, split=split)
        return result

    def _weights(self, number: int) -> None:
        self._sleep("W", number, time.perf_counter_ns())

    def _sleep(self, kind: Kind, number: int, began: int, *, split: bool = False) -> None:
        duration = self._model.duration(kind, self._stage, number, split=split)
        sleep_until(began + int(duration * self._emulation.unit_ms * 1e6))


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, received: Tensor, stage: SleepingStage, number: int) -> Tensor:
        ctx.stage, ctx.number, ctx.like = stage, number, received.shape
        return stage.forward(received, number)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.stage.backward(gradient, ctx.like, ctx.number), None, None


def number_of(microbatch: MicroBatch) -> int:
    return int(microbatch.tokens_BT)


def emulated_models(problem: Problem, *, rank: int, emulation: Emulation) -> list[PipelineModel]:
    """The problem's models with the stages that this rank holds; rank r of the world is column r.

    Raises ProblemError where a stage is on several columns: such ranks would sleep side by side, not together."""
    for model in problem.models:
        wide = [stage for stage in range(model.stages) if len(model.ranks_of(stage)) > 1]
        if wide:
            columns = model.ranks_of(wide[0])
            raise ProblemError(
                f"{model.name}: stage {wide[0]} lies on columns {columns}; emulated stages lie on one each"
            )
    return [_model(model, problem, rank=rank, emulation=emulation) for model in problem.models]


def emulated_work(problem: Problem) -> dict[str, Work]:
    """Micro-batches that hold their number and nothing else."""
    return {model.name: Work(_numbered(model), loss=_loss if model.trains else None) for model in problem.models}


def _model(model: Model, problem: Problem, *, rank: int, emulation: Emulation) -> PipelineModel:
    shape = (max(1, emulation.payload // 4),)
    message_shape: Callable[[MicroBatch], tuple[int, ...]] = lambda microbatch: shape  # noqa: E731
    return PipelineModel(
        name=model.name,
        placement=tuple(model.ranks_of(s)[0] for s in range(model.stages)),
        columns=(tuple(range(problem.ranks)),),
        stages={s: SleepingStage(model, s, emulation) for s in model.stages_on(rank)},
        message_shape=message_shape,
        splits=True,
    )


def _numbered(model: Model) -> list[MicroBatch]:
    return [MicroBatch(torch.tensor([[m]])) for m in range(model.microbatches)]


def _loss(output: Tensor, microbatch: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
    return output, {}


def _check(tensor: Tensor, number: int, *, what: str) -> None:
    if float(tensor[0]) != number or float(tensor[-1]) != number:
        raise AssertionError(f"{what} received the tensor of micro-batch {tensor[0]:g} to {tensor[-1]:g}")

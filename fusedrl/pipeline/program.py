"""A program: an order made ready to run. It is checked, replayed and lowered once, the same on all ranks.

Receives are moved ahead of the computes before them, up to the previous message: the message then arrives while the
rank works. The sequence of messages stays as lowering fixed it, so its proof against hanging holds: to post a receive
earlier can only free the sender earlier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from schedules.check import check
from schedules.graph import split_of
from schedules.lower import Compute, Instruction, Recv, lower
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import Replay


@dataclass(frozen=True)
class Program:
    """An order, what it is planned to take, and each column's instructions."""

    problem: Problem
    order: Order
    planned: Replay
    instructions: tuple[tuple[Instruction, ...], ...]

    @cached_property
    def split(self) -> frozenset[tuple[str, int, int]]:
        """(model, stage, micro-batch) of each backward whose weight part is a W of its own."""
        return frozenset(split_of(self.order))


def make_program(problem: Problem, order: Order) -> Program:
    """Raises OrderError where the order is invalid."""
    planned = check(problem, order)
    lists = lower(problem, order)
    return Program(problem, order, planned, tuple(receives_early(row) for row in lists))


def receives_early(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Move each receive ahead of the computes between it and the previous message."""
    result: list[Instruction] = []
    waiting: list[Instruction] = []  # computes since the last message
    for instruction in instructions:
        if isinstance(instruction, Compute):
            waiting.append(instruction)
        elif isinstance(instruction, Recv):
            result.append(instruction)
        else:
            result += [*waiting, instruction]
            waiting = []
    return (*result, *waiting)

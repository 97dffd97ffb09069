"""Lowering: an order becomes one list of computes, sends and receives per rank, with no choice left.

All ops and messages are put into ONE sequence, a linear extension of the replay: by time, a message at the end of the
op that makes it, an op at its start. Each rank's list is that sequence cut down to what touches the rank. The first
unfinished event of the sequence is then at the head of every list it stands in, so the lists cannot deadlock even
where each send blocks until its receive is posted. It is a pure function: all ranks compute the same lists.
"""

import heapq
from dataclasses import dataclass
from typing import Literal, TypeAlias

from schedules.graph import build_graph, split_of
from schedules.order import Op, Order
from schedules.problem import Problem
from schedules.replay import numbered, walk


@dataclass(frozen=True, order=True)
class Message:
    """A tensor between stages: kind F, an activation to the next stage; kind B, a gradient to the previous one."""

    model: str
    kind: Literal["F", "B"]
    microbatch: int
    src_stage: int
    dst_stage: int
    src_rank: int
    dst_rank: int

    def __str__(self) -> str:
        return f"{self.model}:{self.kind}{self.microbatch}@{self.src_stage}->{self.dst_stage}"


@dataclass(frozen=True)
class Compute:
    op: Op

    def __str__(self) -> str:
        return str(self.op)


@dataclass(frozen=True)
class Send:
    message: Message

    def __str__(self) -> str:
        return f"send {self.message}"


@dataclass(frozen=True)
class Recv:
    message: Message

    def __str__(self) -> str:
        return f"recv {self.message}"


Instruction: TypeAlias = Compute | Send | Recv
Event: TypeAlias = Op | Message


def lower(problem: Problem, order: Order) -> tuple[tuple[Instruction, ...], ...]:
    """The instruction list of each rank. Raises OrderError where the order cannot be replayed."""
    lists: list[list[Instruction]] = [[] for _ in range(problem.ranks)]
    for event in sequence(problem, order):
        if isinstance(event, Message):
            lists[event.src_rank].append(Send(event))
            lists[event.dst_rank].append(Recv(event))
        else:
            for rank in problem.model(event.model).ranks_of(event.stage):
                lists[rank].append(Compute(event))
    return tuple(tuple(row) for row in lists)


def sequence(problem: Problem, order: Order) -> list[Event]:
    """All ops and messages in the one sequence that every rank's list follows."""
    graph = build_graph(problem, split=split_of(order))
    start, topological = walk(graph, numbered(graph, order))
    place = {i: position for position, i in enumerate(topological)}
    events: list[Event] = []
    pending: list[tuple[float, int, Message]] = []  # made, not yet passed: (end of the op, tie breaker, message)
    for i in sorted(topological, key=lambda i: (start[i], place[i])):
        while pending and pending[0][0] <= start[i]:
            events.append(heapq.heappop(pending)[2])
        events.append(graph.ops[i])
        for message in messages_of(problem, graph.ops[i]):
            heapq.heappush(pending, (start[i] + graph.duration[i], place[i], message))
    return events + [message for _, _, message in sorted(pending)]


def messages_of(problem: Problem, op: Op) -> list[Message]:
    """What an op sends. A rank that also holds the target stage needs no message from itself."""
    model = problem.model(op.model)
    target = {"F": op.stage + 1, "B": op.stage - 1}.get(op.kind, -1)
    if op.kind == "W" or not 0 <= target < model.stages:
        return []
    sources, targets = model.ranks_of(op.stage), model.ranks_of(target)
    return [
        Message(op.model, op.kind, op.microbatch, op.stage, target, sources[column % len(sources)], rank)
        for column, rank in enumerate(targets)
        if rank not in sources
    ]

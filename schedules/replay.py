"""Replay: the start and end of every op of an order, and from these makespan, bubble ratio and memory.

    start(op) = max over what it waits for (data with its lag, the row's previous op) of their ends
    bubble ratio = 1 - work / (ranks * makespan), work counted on every rank that an op occupies

This is the one oracle: builders and searches may estimate, but what they claim is what replay says. Memory on a rank
depends on its row alone: F takes the activation at its start, the op that ends the micro-batch's stay gives it back.
"""

from dataclasses import dataclass

from schedules.graph import Graph, build_graph, split_of
from schedules.order import Op, Order, OrderError
from schedules.problem import Problem


@dataclass(frozen=True)
class Replay:
    """What an order amounts to. Times and memory are in the problem's units; `peak_memory` is per rank."""

    makespan: float
    bubble_ratio: float
    peak_memory: tuple[float, ...]
    start: dict[Op, float]
    end: dict[Op, float]

    @property
    def max_peak_memory(self) -> float:
        return max(self.peak_memory)


def replay(problem: Problem, order: Order) -> Replay:
    """Replay an order. Raises OrderError for a missing or doubled op and for ops that wait for each other."""
    graph = build_graph(problem, split=split_of(order))
    rows = numbered(graph, order)
    start, _ = walk(graph, rows)
    end = [t + d for t, d in zip(start, graph.duration, strict=True)]
    makespan = max(end)
    return Replay(
        makespan=makespan,
        bubble_ratio=bubble_ratio(problem, makespan),
        peak_memory=tuple(peak_memory(graph, row) for row in rows),
        start=dict(zip(graph.ops, start, strict=True)),
        end=dict(zip(graph.ops, end, strict=True)),
    )


def measure(graph: Graph, rows: list[list[int]]) -> tuple[float, float]:
    """Makespan and largest peak memory of rows of op numbers that are known to be complete."""
    start, _ = walk(graph, rows)
    makespan = max(t + d for t, d in zip(start, graph.duration, strict=True))
    return makespan, max(peak_memory(graph, row) for row in rows)


def bubble_ratio(problem: Problem, makespan: float) -> float:
    """The share of rank time without work; 0 where rounding puts it below."""
    return max(0.0, 1.0 - sum(work_of(problem)) / (problem.ranks * makespan)) if makespan > 0 else 0.0


def work_of(problem: Problem) -> list[float]:
    """The time of all ops on each rank."""
    work = [0.0] * problem.ranks
    for model in problem.models:
        for s in range(model.stages):
            total = sum(model.duration("F", s, m) + model.duration("B", s, m) for m in range(model.microbatches))
            for rank in model.ranks_of(s):
                work[rank] += total
    return work


def numbered(graph: Graph, order: Order) -> list[list[int]]:
    """The rows as op numbers. Raises OrderError unless every op stands exactly once in each of its ranks' rows."""
    rows = [[_number(graph, op, rank=rank) for op in row] for rank, row in enumerate(order.rows)]
    if len(rows) != graph.problem.ranks:
        raise OrderError(f"{len(rows)} rows for {graph.problem.ranks} ranks; an order has one row a rank")
    expected: list[list[Op]] = [[] for _ in rows]
    for i, op in enumerate(graph.ops):
        for rank in graph.ranks_of(i):
            expected[rank].append(op)
    for rank, row in enumerate(order.rows):
        _check_row(row, expected[rank], rank=rank)
    return rows


def walk(graph: Graph, rows: list[list[int]]) -> tuple[list[float], list[int]]:
    """The earliest start of each op, and the ops in a sequence in which none comes before what it waits for.

    Raises OrderError naming a cycle where ops wait for each other.
    """
    waiting = [len(links) + len(graph.ranks_of(i)) for i, links in enumerate(graph.before)]
    start = [0.0] * len(graph.ops)
    heads = [0] * len(rows)
    sequence: list[int] = []
    ready: list[int] = []

    def release(j: int, time: float) -> None:
        start[j] = max(start[j], time)
        waiting[j] -= 1
        if not waiting[j]:
            ready.append(j)

    for row in rows:
        if row:
            release(row[0], 0.0)
    while ready:
        i = ready.pop()
        sequence.append(i)
        end = start[i] + graph.duration[i]
        for j, lag in graph.after[i]:
            release(j, end + lag)
        for rank in graph.ranks_of(i):
            heads[rank] += 1
            if heads[rank] < len(rows[rank]):
                release(rows[rank][heads[rank]], end)
    if len(sequence) < len(graph.ops):
        raise OrderError(f"ops wait for each other: {_cycle(graph, rows, heads)}")
    return start, sequence


def peak_memory(graph: Graph, row: list[int]) -> float:
    """The most memory that a row holds at once, to 12 digits: sums of activations such as 1.95 stray beyond."""
    held = peak = 0.0
    for i in row:
        held += graph.acquire[i]
        peak = max(peak, held)
        held -= graph.release[i]
    return float(f"{peak:.12g}")


def _number(graph: Graph, op: Op, *, rank: int) -> int:
    i = graph.number.get(op)
    if i is None:
        raise OrderError(f"rank {rank}: the problem has no op {op}")
    return i


def _check_row(row: tuple[Op, ...], expected: list[Op], *, rank: int) -> None:
    seen: set[Op] = set()
    for position, op in enumerate(row):
        if op in seen:
            raise OrderError(f"rank {rank}, position {position}: {op} stands there a second time")
        seen.add(op)
    for op in expected:
        if op not in seen:
            raise OrderError(f"rank {rank}: {op} is missing")
    for op in row:
        if len(row) != len(expected) and op not in set(expected):
            raise OrderError(f"rank {rank}: {op} does not belong there")


def _cycle(graph: Graph, rows: list[list[int]], heads: list[int]) -> str:
    """Follow from an op that cannot start to one it waits for until an op comes again."""
    place = {(rank, i): position for rank, row in enumerate(rows) for position, i in enumerate(row)}

    def finished(i: int) -> bool:
        return all(place[rank, i] < heads[rank] for rank in graph.ranks_of(i))

    def waits_for(i: int) -> int:
        for rank in graph.ranks_of(i):
            if place[rank, i] > heads[rank]:
                return rows[rank][place[rank, i] - 1]
        return next(j for j, _ in graph.before[i] if not finished(j))

    path = [next(row[head] for row, head in zip(rows, heads, strict=True) if head < len(row))]
    while path[-1] not in path[:-1]:
        path.append(waits_for(path[-1]))
    cycle = path[path.index(path[-1]) :]
    return " waits for ".join(str(graph.ops[i]) for i in cycle)

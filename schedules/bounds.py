"""A lower bound on the makespan of any valid order, with or without split backwards, at any memory cap.

Each rank alone is a one-machine problem: its ops have heads (longest path before), tails (longest path after) and
durations. Jackson's preemptive schedule solves that relaxation exactly: at any time run the available op with the
longest tail (Jackson 1955; Carlier 1982). The bound is the worst rank's. It equals work + head + tail of the worst
rank on the published problems. Splitting only adds freedom, so the bound takes every backward that may be split as
split: a whole backward is the same with W right after B.
"""

import heapq

from schedules.graph import Graph, build_graph, every_split
from schedules.paths import heads, tails
from schedules.problem import Problem

Job = tuple[float, float, float]  # head, duration, tail


def lower_bound(problem: Problem) -> float:
    """No valid order of the problem ends earlier."""
    return max(preemptive_makespan(jobs) for jobs in jobs_by_rank(build_graph(problem, split=every_split(problem))))


def jobs_by_rank(graph: Graph) -> list[list[Job]]:
    """Head, duration and tail of all ops of each rank."""
    jobs: list[list[Job]] = [[] for _ in range(graph.problem.ranks)]
    for i, job in enumerate(zip(heads(graph), graph.duration, tails(graph), strict=True)):
        for rank in graph.ranks_of(i):
            jobs[rank].append(job)
    return jobs


def preemptive_makespan(jobs: list[Job]) -> float:
    """Jackson's preemptive schedule of one rank: the largest completion plus tail."""
    arriving = sorted(jobs, reverse=True)  # popped from the end: earliest head first
    available: list[tuple[float, float]] = []  # (-tail, time left)
    time = bound = 0.0
    while arriving or available:
        if not available:
            time = max(time, arriving[-1][0])
        while arriving and arriving[-1][0] <= time:
            _, duration, tail = arriving.pop()
            heapq.heappush(available, (-tail, duration))
        minus_tail, left = heapq.heappop(available)
        until = arriving[-1][0] if arriving else float("inf")
        if time + left > until:
            heapq.heappush(available, (minus_tail, left - (until - time)))
            time = until
        else:
            time += left
            bound = max(bound, time - minus_tail)
    return bound

"""Longest paths through the work of a problem, as if every rank had no end of ops to run at once.

    head(op)  the earliest that it can start
    tail(op)  the least time from its end to the end of all work that waits for it

Ops of a chain run in micro-batch order, so each also waits for the one before it.
"""

from schedules.graph import Graph, Link


def heads(graph: Graph) -> list[float]:
    """Earliest start of each op."""
    return _longest(
        graph, before=_with_chains(graph, graph.before, step=-1), after=_with_chains(graph, graph.after, step=1)
    )


def tails(graph: Graph) -> list[float]:
    """Least time from each op's end to the end of all that waits for it."""
    return _longest(
        graph, before=_with_chains(graph, graph.after, step=1), after=_with_chains(graph, graph.before, step=-1)
    )


def _with_chains(graph: Graph, links: "list[tuple[Link, ...]] | list[list[Link]]", *, step: int) -> list[list[Link]]:
    """The links and, for each op, its neighbour in the chain."""
    chain = graph.chain_of
    return [
        [*own, (i + step, 0.0)] if 0 <= i + step < len(chain) and chain[i + step] == chain[i] else list(own)
        for i, own in enumerate(links)
    ]


def _longest(graph: Graph, *, before: list[list[Link]], after: list[list[Link]]) -> list[float]:
    waiting = [len(links) for links in before]
    ready = [i for i, count in enumerate(waiting) if not count]
    time = [0.0] * len(waiting)
    while ready:
        i = ready.pop()
        end = time[i] + graph.duration[i]
        for j, lag in after[i]:
            time[j] = max(time[j], end + lag)
            waiting[j] -= 1
            if not waiting[j]:
                ready.append(j)
    return time

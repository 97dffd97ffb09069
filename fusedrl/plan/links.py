"""Seconds of collectives over the links of a cluster: rings in a node, and between nodes.

    n ranks, S bytes                     bandwidth part            latency part
    all-gather, reduce-scatter           (n - 1) / n  S / b        ceil(log2 n) hops
    all-reduce                           2 (n - 1) / n  S / b      2 ceil(log2 n) hops
    broadcast                            S / b                     ceil(log2 n) hops

The bandwidth part is that of rings, and the least that any algorithm takes (Patarasuk and Yuan 2009); hops are those of
trees, which libraries take for small messages. Over m nodes of k ranks each a collective goes by levels: inside the
nodes on S bytes, between them on S / k, each rank by a link of its own.
"""

import math

from fusedrl.plan.cluster import Cluster, Link
from fusedrl.plan.costs import Collective


def collective_seconds(cluster: Cluster, kind: Collective, nbytes: float, *, ranks: int, nodes: int = 1) -> float:
    """Of `ranks` ranks spread evenly over `nodes` nodes; nbytes: of the whole tensor. 0 for one rank."""
    if ranks == 1:
        return 0.0
    inside = -(-ranks // nodes)
    between = _level(cluster.between, kind, nbytes / (1 if kind == "broadcast" else inside), ranks=nodes)
    return _level(cluster.inside, kind, nbytes, ranks=inside) + between


def _level(link: Link, kind: Collective, nbytes: float, *, ranks: int) -> float:
    if ranks == 1:
        return 0.0
    times = 2 if kind == "all_reduce" else 1
    share = 1.0 if kind == "broadcast" else (ranks - 1) / ranks
    return times * (share * nbytes / link.bandwidth + math.ceil(math.log2(ranks)) * link.latency)

"""Seconds of collectives, against sums by hand: 8 devices a node, 100 bytes/s inside, 10 between, latencies 1 and 5."""

from fusedrl.plan.cluster import Cluster, Link, read_device
from fusedrl.plan.links import collective_seconds

CLUSTER = Cluster("by hand", read_device("h100"), nodes=4, devices=8, inside=Link(100.0, 1.0), between=Link(10.0, 5.0))


def test_one_rank_waits_for_nobody() -> None:
    assert collective_seconds(CLUSTER, "all_reduce", 800.0, ranks=1) == 0.0


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    gather = collective_seconds(CLUSTER, "all_gather", 800.0, ranks=8)
    assert gather == 7 / 8 * 8.0 + 3 * 1.0
    assert collective_seconds(CLUSTER, "reduce_scatter", 800.0, ranks=8) == gather
    assert collective_seconds(CLUSTER, "all_reduce", 800.0, ranks=8) == 2 * gather


def test_between_nodes_each_rank_carries_its_share() -> None:
    inside = 7 / 8 * 8.0 + 3 * 1.0
    between = 1 / 2 * (800.0 / 8) / 10.0 + 5.0
    assert collective_seconds(CLUSTER, "all_gather", 800.0, ranks=16, nodes=2) == inside + between
    alone = 3 / 4 * 80.0 + 2 * 5.0  # a rank a node
    assert collective_seconds(CLUSTER, "all_gather", 800.0, ranks=4, nodes=4) == alone


def test_a_broadcast_brings_all_bytes_to_each_node() -> None:
    assert collective_seconds(CLUSTER, "broadcast", 800.0, ranks=16, nodes=2) == (8.0 + 3.0) + (80.0 + 5.0)

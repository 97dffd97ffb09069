"""Weights on their way from the layout in which they train to that in which they are used.

A rank holds a stage's layers, of each the tp-th part: a rectangle over (layers, width). What a rank of the target needs
and does not hold already it takes in; senders share what is sent evenly, as rollout.reshard does. The slowest rank is
the one that takes in or sends most. Links between nodes are used where some node lacks a part that a rank of it needs.
"""

from functools import lru_cache

import numpy as np

from fusedrl.plan.calls import Way
from fusedrl.plan.costs import Costs
from fusedrl.plan.memory import BYTES
from fusedrl.plan.sizes import ModelSizes

Array = np.ndarray
Shape = tuple[int, int, int, int]  # first rank, ranks, tp, pp


def same_weights(source: Way, target: Way) -> bool:
    """Whether each rank of the target holds just what it needs."""
    return source.shape == target.shape and not source.zero and not target.zero


def move_seconds(costs: Costs, model: ModelSizes, *, source: Way, target: Way) -> float:
    """Seconds until the target's ranks have the weights."""
    if same_weights(source, target):
        return 0.0
    split = (1 if source.zero else source.pp, source.mesh.count if source.zero else source.tp)
    first = (source.mesh.first, source.mesh.count, split[1], split[0])
    most, across = fraction_moved(first, (*target.shape[:2], target.tp, target.pp), costs.cluster.devices)
    nbytes = most * model.parameters() * BYTES[costs.dtype]
    return costs.reshard(nbytes, across_nodes=across) if nbytes else 0.0


@lru_cache(maxsize=200_000)
def fraction_moved(source: Shape, target: Shape, devices: int) -> tuple[float, bool]:
    """(share of the model that the busiest rank takes in or sends, whether it crosses nodes)."""
    low_R, high_R, left_R, right_R = _held(target)
    own = _overlap(source, target)
    taken_R = (high_R - low_R) * (right_R - left_R) - own
    most = max(float(taken_R.max()), float(taken_R.sum()) / source[1])
    ranks = target[0] + np.arange(target[1])
    lacking = {int(rank) // devices for rank, taken in zip(ranks, taken_R, strict=True) if taken > 1e-12}
    return most, any(not _whole(source, node, devices) for node in lacking)


def _held(shape: Shape) -> tuple[Array, Array, Array, Array]:
    """Of each rank: layers from and to, width from and to, in shares. Rank = tp_i + tp (dp_i + dp pp_i)."""
    _, count, tp, pp = shape
    rank = np.arange(count)
    tp_i, pp_i = rank % tp, rank // (count // pp)
    return pp_i / pp, (pp_i + 1) / pp, tp_i / tp, (tp_i + 1) / tp


def _overlap(source: Shape, target: Shape) -> Array:
    """Of each rank of the target: the share of the model that it needs and holds already."""
    low, high, left, right = _held(target)
    place = target[0] + np.arange(target[1]) - source[0]
    inside = (place >= 0) & (place < source[1])
    at = np.clip(place, 0, source[1] - 1)
    a, b, c, d = (side[at] for side in _held(source))
    area = np.clip(np.minimum(high, b) - np.maximum(low, a), 0, None) * np.clip(
        np.minimum(right, d) - np.maximum(left, c), 0, None
    )
    return np.where(inside, area, 0.0)


@lru_cache(maxsize=100_000)
def _whole(source: Shape, node: int, devices: int) -> bool:
    """Whether a node's ranks hold the whole model between them."""
    first, count, tp, pp = source
    ranks = [rank - first for rank in range(node * devices, (node + 1) * devices) if 0 <= rank - first < count]
    return len({(rank % tp, rank // (count // pp)) for rank in ranks}) == tp * pp

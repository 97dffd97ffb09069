"""Weights on their way from where they train to where they are used: who sends what, by the hand-over's own planner.

A model is described by its layers and ends, each split over tensor-parallel ranks as one tensor; rollout.reshard finds
the pieces. A rank sleeps for what it takes in, or for what the busiest of its senders sends, whichever is more.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from fusedrl.bench.plan_scene import Scene
from fusedrl.plan.calls import CALLS
from fusedrl.plan.sizes import layer_parameters
from fusedrl.rollout.reshard import Shard, Span, plan


@dataclass(frozen=True)
class Moved:
    """What a call's weights come to: bytes by (source, target), of the job's ranks."""

    bytes_ST: dict[tuple[int, int], int]

    def senders(self, rank: int) -> list[int]:
        return sorted({source for source, target in self.bytes_ST if target == rank})

    def targets(self, rank: int) -> list[int]:
        return sorted({target for source, target in self.bytes_ST if source == rank})

    def most(self, rank: int) -> int:
        """Bytes that a target's wait comes to."""
        sent: dict[int, int] = defaultdict(int)
        for (source, _), nbytes in self.bytes_ST.items():
            sent[source] += nbytes
        taken = sum(nbytes for (_, target), nbytes in self.bytes_ST.items() if target == rank)
        return max([taken, *(sent[source] for source in self.senders(rank))])


def moved(scene: Scene, call: str) -> Moved:
    """Between the layouts of its training and of the call; nothing where each rank has what it needs."""
    source = CALLS[call].source
    if source is None or source not in scene.ways:
        return Moved({})
    split = scene.ways[source].zero
    if split and scene.ways[call].zero and scene.ways[source].mesh == scene.ways[call].mesh:
        return Moved({})  # gathered layer by layer while the call runs
    held = [list(_shards(scene, source, rank, split=split)) for rank in range(scene.world)]
    needed = [list(_shards(scene, call, rank, split=False)) for rank in range(scene.world)]
    found: dict[tuple[int, int], int] = defaultdict(int)
    for piece in plan(held, needed):
        if piece.source != piece.target:
            found[piece.source, piece.target] += piece.bytes
    return Moved(dict(found))


def _shards(scene: Scene, call: str, rank: int, *, split: bool) -> Iterator[Shard]:
    """What a rank holds. split: over all ranks of the call, whatever its layout (ZeRO-3)."""
    part = scene.part(call, rank)
    if part is None:
        return
    stage = scene.stage(call, part)
    names = [f"layer{layer}" for layer in stage.layers]
    names += ["first"] * stage.first + ["last"] * stage.last
    way = scene.ways[call]
    parts, place = (way.mesh.count, rank - way.mesh.first) if split else (way.tp, part.tp_i)
    for name in names:
        yield _shard(scene, call, name, parts=parts, place=place)


def _shard(scene: Scene, call: str, name: str, *, parts: int, place: int) -> Shard:
    """Of a tensor of world x numbers / world, so that every number of ranks divides it."""
    width = scene.world
    own = width // parts
    span = Span(place * own, 0, own)
    numbers = max(1, _parameters(scene, call, name) // width)
    return Shard(name, name, (own, numbers), 0, (span,), scene.pricer.costs.dtype)


def _parameters(scene: Scene, call: str, name: str) -> int:
    model = scene.model(call)
    if name.startswith("layer"):
        layer = int(name.removeprefix("layer"))
        return layer_parameters(model.arch, with_experts=bool(len(model.arch.expert_layers(range(layer, layer + 1)))))
    ends = {
        end: model.stage_parameters(range(0), first=end == "first", last=end == "last") for end in ("first", "last")
    }
    return ends[name]


def wait_seconds(scene: Scene, found: Moved, rank: int) -> float:
    nbytes = found.most(rank) if found.senders(rank) else 0
    return scene.pricer.costs.reshard(nbytes, across_nodes=scene.pricer.costs.cluster.nodes > 1) if nbytes else 0.0
